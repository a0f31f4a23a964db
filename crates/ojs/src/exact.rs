//! JSON whose numbers stay as they were written.
//!
//! A [`Value`] holds a number with a point or an exponent, and an integer beyond 64 bits, as a double. Here such a number is a
//! string of NUL and its text. No other string of a request begins with NUL, because PostgreSQL stores none. [`Exact`] writes
//! the text back, as it does any JSON text behind a NUL.

use std::fmt;

use serde::de::IgnoredAny;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use uniqueue::json::{is_number, tokens};

use crate::problem::Problem;

/// Stands before JSON text.
const MARK: char = '\0';

/// JSON text as a value that [`Exact`] writes as this text.
pub(crate) fn raw(json: &RawValue) -> Value {
    Value::String(format!("{MARK}{}", json.get()))
}

/// Reads JSON text.
pub(crate) fn read(text: &str) -> Result<Value, Problem> {
    let invalid = |error: serde_json::Error| Problem::payload(format!("the body is not valid JSON: {error}"));
    // Invalid JSON must not become valid by the marks.
    serde_json::from_str::<IgnoredAny>(text).map_err(invalid)?;
    let mut marked = String::with_capacity(text.len());
    for (_, token) in tokens(text) {
        match token {
            text if text.starts_with("\"\\u0000") => {
                return Err(Problem::invalid("PostgreSQL cannot store the character NUL: \\u0000"));
            }
            // serde_json reads -0 as a double.
            number if is_number(number) && (number == "-0" || !is_integer(number)) => {
                marked.push_str(&format!("\"\\u0000{number}\""));
            }
            plain => marked.push_str(plain),
        }
    }
    serde_json::from_str(&marked).map_err(invalid)
}

fn is_integer(number: &str) -> bool {
    number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok()
}

/// Writes a value with the numbers as they were read.
pub(crate) struct Exact<'a>(pub(crate) &'a Value);

impl Serialize for Exact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) => match text.strip_prefix(MARK) {
                Some(json) => {
                    serde_json::from_str::<&RawValue>(json).map_err(serde::ser::Error::custom)?.serialize(serializer)
                }
                None => serializer.serialize_str(text),
            },
            Value::Array(items) => serializer.collect_seq(items.iter().map(Exact)),
            Value::Object(members) => serializer.collect_map(members.iter().map(|(name, value)| (name, Exact(value)))),
            plain => plain.serialize(serializer),
        }
    }
}

impl fmt::Display for Exact<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).unwrap_or_else(|error| error.to_string()))
    }
}

/// A text, and no number.
pub(crate) fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.starts_with(MARK))
}

/// The texts of an array that has nothing else.
pub(crate) fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| text(item).map(str::to_owned)).collect()
}

/// A number as a double.
pub(crate) fn double(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => text.strip_prefix(MARK)?.parse().ok(),
        value => value.as_f64(),
    }
}

/// A value that the queue keeps as doubles: meta, results and details of errors. A number that a double would change is an
/// error, as in a key.
pub(crate) fn plain(name: &str, value: &Value) -> Result<Value, Problem> {
    uniqueue::json::parse_json(&Exact(value).to_string())
        .map_err(|error| Problem::invalid(format!("invalid {name}: {error}")).detail("field", name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_written_as_they_were_read() {
        let text = r#"{"1.5":"1.5\"2.5","\\":"é1e5","a":[1,-7,1.50,-0,1e400,-0.0,12345678901234567890123,18446744073709551615]}"#;
        let read = read(text).unwrap();
        assert_eq!(Exact(&read).to_string(), text);
        assert_eq!(
            (read["a"][0].as_u64(), double(&read["a"][2]), double(&read["a"][1])),
            (Some(1), Some(1.5), Some(-7.0))
        );
        for wrong in ["1.", "[1.e5]", "[01]", "[1 2]", "{\"a\":-}", "[+1]", r#"["\u0000"]"#, r#"{"\u00001":1}"#, "nul"]
        {
            assert!(super::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_double_that_would_change_the_number_is_an_error() {
        let exact = |text: &str| plain("meta", &read(text).unwrap());
        assert_eq!(exact("[1.5, 1e3, 0.1]").unwrap(), json!([1.5, 1000.0, 0.1]));
        for wrong in ["[1e400]", "12345678901234567890123", "{\"a\":0.1234567890123456789}"] {
            assert!(exact(wrong).is_err(), "{wrong}");
        }
    }
}
