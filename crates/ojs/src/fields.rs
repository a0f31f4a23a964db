//! The members of a job document, wherever they stand: in `options`, or at the top as in an envelope.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::exact::{self, Exact};
use crate::problem::Problem;

/// A job document. A member of `options` comes before the same member at the top. Both come before the members of the
/// workflow.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub(crate) top: &'a Map<String, Value>,
    options: Option<&'a Map<String, Value>>,
    defaults: Option<&'a Map<String, Value>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(top: &'a Map<String, Value>, defaults: Option<&'a Map<String, Value>>) -> Result<Self, Problem> {
        let options = object(top, "options")?;
        Ok(Self { top, options, defaults })
    }

    /// A member, unless it is null.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        let given = |of: &'a Map<String, Value>| of.get(name).filter(|value| !value.is_null());
        self.options.and_then(given).or_else(|| given(self.top)).or_else(|| self.defaults.and_then(given))
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, Problem> {
        text(name, self.get(name))
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<&'a Map<String, Value>>, Problem> {
        typed(name, "an object", self.get(name), Value::as_object)
    }

    pub(crate) fn array(&self, name: &str) -> Result<Option<&'a Vec<Value>>, Problem> {
        typed(name, "an array", self.get(name), Value::as_array)
    }

    pub(crate) fn is_set(&self, name: &str) -> Result<bool, Problem> {
        Ok(typed(name, "true or false", self.get(name), Value::as_bool)?.unwrap_or_default())
    }

    /// A length in milliseconds under the one name, or in seconds under the other: above 0, at most a hundred years.
    pub(crate) fn length(&self, in_millis: &str, in_seconds: &str) -> Result<Option<Duration>, Problem> {
        const MOST: u64 = 36_525 * 86_400;
        for (name, unit, most) in [(in_millis, 1, MOST * 1_000), (in_seconds, 1_000, MOST)] {
            let Some(value) = self.get(name) else { continue };
            return match value.as_u64() {
                Some(count) if (1..=most).contains(&count) => Ok(Some(Duration::from_millis(count * unit))),
                _ => Err(wrong(name, "a whole number above 0 and below a hundred years", value)),
            };
        }
        Ok(None)
    }
}

/// A member that must be a text if it is there.
pub(crate) fn text<'a>(name: &str, given: Option<&'a Value>) -> Result<Option<&'a str>, Problem> {
    typed(name, "a string", given, exact::text)
}

/// A whole number from 1 to a limit.
pub(crate) fn whole(name: &str, most: u32, given: &Value) -> Result<u32, Problem> {
    let number =
        given.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| wrong(name, &format!("a whole number from 1 to {most}"), given))
}

/// The most results of a page, as its query says: at most 200. Default: 50.
pub(crate) fn page_limit(text: Option<&str>) -> Result<u32, Problem> {
    let Some(text) = text else { return Ok(50) };
    match text.parse::<u32>() {
        Ok(limit) if limit >= 1 => Ok(limit.min(200)),
        _ => Err(wrong("limit", "a whole number above 0", &json!(text))),
    }
}

/// The member of a document that is an object, if it is there.
pub(crate) fn object<'a>(
    document: &'a Map<String, Value>,
    name: &str,
) -> Result<Option<&'a Map<String, Value>>, Problem> {
    typed(name, "an object", document.get(name), Value::as_object)
}

/// A value of one type. `None`: null, or none.
fn typed<'a, T>(
    name: &str,
    must_be: &str,
    given: Option<&'a Value>,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, Problem> {
    let Some(given) = given.filter(|given| !given.is_null()) else { return Ok(None) };
    read(given).map(Some).ok_or_else(|| wrong(name, must_be, given))
}

/// The error of a member with a value that it cannot have.
pub(crate) fn wrong(name: &str, must_be: &str, given: &Value) -> Problem {
    let mut text = Exact(given).to_string();
    if text.len() > 80 {
        text.truncate(text.floor_char_boundary(80));
        text.push('…');
    }
    Problem::invalid(format!("invalid {name}: must be {must_be}: {text}")).detail("field", name)
}
