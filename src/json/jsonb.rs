//! JSON as PostgreSQL's `jsonb` will hold it: the keys of a job must not depend on whether its
//! args came as a Rust value, as text, or out of the row.

use std::borrow::Cow;
use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::canonical::MAX_DEPTH;
use super::flaw::Flaw;
use super::number;
use super::tokens::{Token, tokens};
use crate::error::Result;

/// Reads JSON text with the numbers that `jsonb` would store.
///
/// `serde_json` alone reads every number with a point or an exponent as a double. `jsonb` is
/// exact: of `1234567890123456785e0` or `12345678901234567.85e2` it stores the integer. Numbers
/// that are integers to `jsonb` (no digit stays behind the point once the exponent is applied)
/// and fit into 64 bits are integers here too; all others are doubles.
///
/// # Errors
///
/// [`Error::InvalidKey`](crate::Error::InvalidKey) when the text is not JSON, or has a number that a double cannot hold:
/// one of more than 17 digits, or one that is rounded to 0 or to infinity. Two of them could make one key.
pub fn parse_json(text: &str) -> Result<Value> {
    read_whole(text).map_err(Flaw::in_key)
}

/// Reads args that a key is made from.
pub(crate) fn read_args(kind: &str, args: &RawValue) -> Result<Value> {
    read(args.get()).map_err(|flaw| flaw.in_json("args", kind))
}

/// Checks that `jsonb` can hold a value, and that it can be read back: no NUL in any string or
/// name, no more than 127 levels.
///
/// `what` and `kind` are for the error: `args` or `meta`, and the job's kind.
///
/// # Errors
///
/// [`Error::InvalidJson`](crate::Error::InvalidJson).
pub(crate) fn check_jsonb(what: &'static str, kind: &str, value: &Value) -> Result<()> {
    check(value, 0).map_err(|flaw| flaw.in_json(what, kind))
}

/// As [`check_jsonb`], of an object that is no value yet.
pub(crate) fn check_members(what: &'static str, kind: &str, members: &Map<String, Value>) -> Result<()> {
    members_hold(members, 0).map_err(|flaw| flaw.in_json(what, kind))
}

/// Reads JSON text that a key may be made from, in part. A number that a key cannot hold becomes a string, which
/// the canonical form refuses where it meets it.
fn read(text: &str) -> Result<Value, Flaw> {
    from_text(&rewritten(text).0)
}

fn read_whole(text: &str) -> Result<Value, Flaw> {
    let (text, unfit) = rewritten(text);
    let value = from_text(&text)?;
    unfit.map_or(Ok(value), |number| Err(number::unfit(number)))
}

fn from_text(text: &str) -> Result<Value, Flaw> {
    serde_json::from_str(text).map_err(|error| Flaw::new("the JSON cannot be read", &error.to_string()))
}

/// A Rust value as JSON: serialized to text, then read back.
///
/// Because it goes through text, a struct, a [`Value`] and JSON text agree: `0.1_f32` is `0.1` in text, while
/// `serde_json::to_value` makes 0.10000000149011612 of it. A value that does not serialize to JSON, nests deeper than 127
/// levels, or has a number that a double cannot hold is a flaw.
pub(crate) fn value_of(value: &(impl Serialize + ?Sized)) -> Result<Value, Flaw> {
    read_whole(&text_of(value)?)
}

/// A Rust value as JSON text, no deeper than text may be.
fn text_of(value: &(impl Serialize + ?Sized)) -> Result<String, Flaw> {
    let mut bytes = Vec::with_capacity(128);
    let mut serializer = Serializer::with_formatter(&mut bytes, Shallow { depth: 0 });
    value
        .serialize(&mut serializer)
        .map_err(|error| Flaw::new("the value does not serialize to JSON", &error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| Flaw::new("the value does not serialize to JSON", &error.to_string()))
}

/// Compact text that stops at [`MAX_DEPTH`]. A `Value` built in Rust can nest as deep as memory
/// allows, and serializing it recurses: refusing here keeps it off the end of the stack.
struct Shallow {
    depth: usize,
}

impl Shallow {
    fn enter(&mut self) -> io::Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(io::Error::other("values nest deeper than 127 levels"));
        }
        Ok(())
    }
}

impl Formatter for Shallow {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter()?;
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"]")
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter()?;
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"}")
    }
}

fn check(value: &Value, depth: usize) -> Result<(), Flaw> {
    match value {
        Value::String(text) => no_nul(text),
        Value::Array(_) | Value::Object(_) if depth == MAX_DEPTH => {
            Err(Flaw::new("values nest too deeply", "more than 127 levels"))
        }
        Value::Array(items) => items.iter().try_for_each(|item| check(item, depth + 1)),
        Value::Object(members) => members_hold(members, depth),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn members_hold(members: &Map<String, Value>, depth: usize) -> Result<(), Flaw> {
    members.iter().try_for_each(|(name, member)| {
        no_nul(name)?;
        check(member, depth + 1)
    })
}

fn no_nul(text: &str) -> Result<(), Flaw> {
    if text.contains('\0') { Err(Flaw::new("PostgreSQL cannot store the character NUL", text)) } else { Ok(()) }
}

/// The text with each number that `jsonb` stores as an integer written as one, and each that no key can hold as a
/// string, and the first of those. Only whole, well-formed numbers are touched.
fn rewritten(text: &str) -> (Cow<'_, str>, Option<&str>) {
    let (mut rewritten, mut copied, mut unfit) = (String::new(), 0, None);
    for (at, token) in tokens(text) {
        let Token::Number(number) = token else { continue };
        let replaced = if number::is_unfit(number) {
            unfit = unfit.or(Some(number));
            Some(Value::from(number::marked(number)).to_string())
        } else {
            number::exact_integer(number)
        };
        if let Some(replaced) = replaced {
            rewritten.push_str(&text[copied..at]);
            rewritten.push_str(&replaced);
            copied = at + number.len();
        }
    }
    if copied == 0 {
        return (Cow::Borrowed(text), None);
    }
    rewritten.push_str(&text[copied..]);
    (Cow::Owned(rewritten), unfit)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{json, value::RawValue};

    use super::*;
    use crate::json::canonical::canonical_json;

    fn serialize_json(value: &impl Serialize) -> Result<Value> {
        value_of(value).map_err(Flaw::in_key)
    }

    #[test]
    fn floats_and_large_integers_go_through_text() {
        let canonical = |value| canonical_json(&value).unwrap();
        assert_eq!(canonical(serialize_json(&0.1_f32).unwrap()), "0.1");
        let widest = serialize_json(&u128::MAX).unwrap_err().to_string();
        assert!(widest.ends_with("make it a string: \"340282366920938463463374607431768211455\""), "{widest}");
        assert_eq!(serialize_json(&f64::NAN).unwrap(), json!(null));
        let raw = RawValue::from_string("9.007199254740993e15".to_owned()).unwrap();
        assert_eq!(canonical(serialize_json(&[raw]).unwrap()), "[9007199254740993]");
    }

    #[test]
    fn values_that_are_not_json_are_errors() {
        let error = serialize_json(&BTreeMap::from([([1, 2], "x")])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid unique key: the value does not serialize to JSON: \"key must be a string\""
        );
        let deep = (0..500).fold(json!(1), |inner, _| Value::Object([("a".to_owned(), inner)].into_iter().collect()));
        assert!(serialize_json(&deep).unwrap_err().to_string().contains("127 levels"));
        assert!(check_jsonb("args", "k", &deep).is_err());
        let nest = |levels| (1..levels).fold(json!([]), |inner, _| Value::Array(vec![inner]));
        assert!(check_jsonb("args", "k", &nest(MAX_DEPTH)).is_ok());
        assert!(check_jsonb("args", "k", &nest(MAX_DEPTH + 1)).is_err());
    }

    #[test]
    fn nul_cannot_be_stored() {
        let error = check_jsonb("args", "email.send", &json!([{"a\0": 1}])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid args of \"email.send\": PostgreSQL cannot store the character NUL: \"a\\0\""
        );
        assert!(check_jsonb("args", "k", &json!({"a": ["\0"]})).is_err());
        assert!(check_jsonb("args", "k", &json!({"a": ["\u{1}", null, 1.5]})).is_ok());
    }
}
