//! JSON as PostgreSQL's `jsonb` will hold it: the keys of a job must not depend on whether its
//! args came as a Rust value, as text, or out of the row.

use std::borrow::Cow;
use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};
use serde_json::value::RawValue;

use super::canonical::{MAX_DEPTH, too_deep};
use super::flaw::Flaw;
use super::number::{self, is_beyond_numeric};
use super::tokens::{is_number, tokens};
use crate::error::{Error, Result};

const NUL_PROBLEM: &str = "PostgreSQL cannot store the character NUL: \\u0000";

/// From this length on each number is looked at: PostgreSQL's `numeric` has as many digits after its point.
const LONG_TEXT: usize = 16_384;

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

/// Checks that `jsonb` can hold a JSON text, that it can be read back, and that it has no more bytes than this. `what` and
/// `kind` are for the error: `args` or `meta`, and the job's kind.
///
/// The client refuses the values that `insert_job` refuses in the database: a job that no Rust program can read would fail
/// every page of a list that it is on.
///
/// # Errors
///
/// [`Error::InvalidJson`].
pub(crate) fn check_text(what: &'static str, kind: &str, text: &str, max_bytes: usize) -> Result<()> {
    let problem = if text.len() > max_bytes {
        Some(format!("longer than {max_bytes} bytes: {} bytes", text.len()))
    } else {
        misfit(text)
    };
    problem.map_or(Ok(()), |problem| Err(Error::InvalidJson { what, kind: kind.to_owned(), problem }))
}

/// As [`check_text`], of a value that is no text yet.
pub(crate) fn check_value(what: &'static str, kind: &str, value: &impl Serialize, max_bytes: usize) -> Result<()> {
    let text = text_of(value).map_err(|flaw| flaw.in_json(what, kind))?;
    check_text(what, kind, &text, max_bytes)
}

/// Reads args that a key is made from.
pub(crate) fn read_args(kind: &str, args: &RawValue) -> Result<Value> {
    read(args.get()).map_err(|flaw| flaw.in_json("args", kind))
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
    value.serialize(&mut serializer).map_err(|error| match error.is_io() {
        true => too_deep(),
        false => Flaw::new("the value does not serialize to JSON", &error.to_string()),
    })?;
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
            return Err(io::ErrorKind::Other.into());
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

/// Why JSON text cannot be stored as `jsonb`, or be read back: NUL, half of a surrogate pair, a number of too many digits, and
/// arrays and objects that nest too deep.
fn misfit(json: &str) -> Option<String> {
    // Nearly all texts have none of these, which is found out in a fraction of the time.
    let has_exponent = || json.as_bytes().windows(2).any(|pair| pair[0].is_ascii_digit() && pair[1] | 0x20 == b'e');
    let is_nested = || json.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() > MAX_DEPTH;
    if json.len() < LONG_TEXT && !json.contains("\\u") && !has_exponent() && !is_nested() {
        return None;
    }
    let refused = |what: &str, at: usize, text: &str| {
        // A long number is ASCII, so this is a slice between characters.
        Some(format!("PostgreSQL cannot store {what} at byte {at}: {}", &text[..text.len().min(40)]))
    };
    let mut depth = 0_usize;
    tokens(json).find_map(|(at, token)| match token {
        "[" | "{" => {
            depth += 1;
            (depth > MAX_DEPTH).then(|| too_deep().to_string())
        }
        "]" | "}" => {
            depth = depth.saturating_sub(1);
            None
        }
        text if text.starts_with('"') => match unstorable(text)? {
            (_, "\\u0000") => Some(NUL_PROBLEM.to_owned()),
            (place, half) => refused("half of a surrogate pair", at + place, half),
        },
        number if is_number(number) && is_beyond_numeric(number) => {
            refused("a number with more digits than numeric holds", at, number)
        }
        _ => None,
    })
}

/// The first escape of a JSON string that stands for NUL or for half of a surrogate pair, and its place.
fn unstorable(text: &str) -> Option<(usize, &str)> {
    let unit = |at: usize| u16::from_str_radix(text.get(at..at + 6)?.strip_prefix("\\u")?, 16).ok();
    let mut at = 0;
    while let Some(next) = text[at..].find('\\') {
        at += next;
        at += match (unit(at), unit(at + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0 | 0xD800..=0xDFFF), _) => return Some((at, &text[at..at + 6])),
            _ => 2,
        };
    }
    None
}

/// The text with each number that `jsonb` stores as an integer written as one, and each that no key can hold as a
/// string, and the first of those. Only whole, well-formed numbers are touched.
fn rewritten(text: &str) -> (Cow<'_, str>, Option<&str>) {
    let (mut rewritten, mut copied, mut unfit) = (String::new(), 0, None);
    for (at, number) in tokens(text).filter(|(_, token)| is_number(token)) {
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
        assert!(check_value("args", "k", &deep, usize::MAX).is_err());
        let nest = |levels| (1..levels).fold(json!([]), |inner, _| Value::Array(vec![inner]));
        assert!(check_value("args", "k", &nest(MAX_DEPTH), usize::MAX).is_ok());
        assert!(check_value("args", "k", &nest(MAX_DEPTH + 1), usize::MAX).is_err());
    }

    #[test]
    fn only_a_real_nul_is_refused() {
        assert_eq!(misfit(r#"{"a":"x\u0000"}"#).as_deref(), Some(NUL_PROBLEM));
        assert_eq!(misfit(r#"{"a":"x\\u0000"}"#), None);
        assert_eq!(misfit(r#"{"a":"x\\\u0000"}"#).as_deref(), Some(NUL_PROBLEM));
        assert_eq!(misfit("{}"), None);
    }

    #[test]
    fn text_is_too_deep_exactly_when_it_cannot_be_read_back() {
        let is_too_deep = |json: &str| misfit(json).is_some_and(|problem| problem == too_deep().to_string());
        for levels in [1, 126, 127, 128, 129, 100_000] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let json = format!("{}1{}", open.repeat(levels), close.repeat(levels));
                assert_eq!(is_too_deep(&json), serde_json::from_str::<Value>(&json).is_err(), "{levels}");
            }
        }
        assert!(!is_too_deep(&format!("[{}[]]", "[],".repeat(1_000))));
    }

    /// The place and the text of the misfit.
    fn found(json: &str) -> Option<(usize, String)> {
        let problem = misfit(json)?;
        let (at, text) = problem.split_once(" at byte ")?.1.split_once(": ")?;
        Some((at.parse().ok()?, text.to_owned()))
    }

    #[test]
    fn half_of_a_surrogate_pair_is_found_at_its_place() {
        for (json, expected) in [
            (r#"{"a":"\ud83d\ude00 \uD83D\uDE00"}"#, None),
            (r#"{"a":"\\ud83d"}"#, None),
            (r#"{"a":"\ud83d"}"#, Some((6, r"\ud83d"))),
            (r#"{"a":"\ude00\ud83d"}"#, Some((6, r"\ude00"))),
            (r#"{"\ud83d\ud83d":1}"#, Some((2, r"\ud83d"))),
            (r#"["\ud83d\n\ude00"]"#, Some((2, r"\ud83d"))),
            (r#"["\\\udfff"]"#, Some((4, r"\udfff"))),
            (r#"["ä\ud800ä"]"#, Some((4, r"\ud800"))),
            (r#"["\ud7ff\ue000"]"#, None),
        ] {
            assert_eq!(found(json), expected.map(|(at, text): (usize, &str)| (at, text.to_owned())), "{json}");
        }
    }

    #[test]
    fn numbers_beyond_numeric_are_found_at_their_place() {
        for (json, expected) in [
            ("[1e131071, 1e-16383, 0e200000, 10e131070]", None),
            ("[0, 1e131072]", Some((4, "1e131072"))),
            ("[-1E+200000]", Some((1, "-1E+200000"))),
            ("1e-16384", Some((0, "1e-16384"))),
            ("0e-16384", Some((0, "0e-16384"))),
            ("0.1e-16383", Some((0, "0.1e-16383"))),
            ("0.001e131075", Some((0, "0.001e131075"))),
            ("0.001e131074", None),
            ("0e1073741823", Some((0, "0e1073741823"))),
            ("0e1073741822", None),
            ("1e99999999999999999999", Some((0, "1e99999999999999999999"))),
            (r#"{"1e200000": "1e200000", "\"1e200000": 1}"#, None),
        ] {
            assert_eq!(found(json), expected.map(|(at, text): (usize, &str)| (at, text.to_owned())), "{json}");
        }
        let (zeros, ones) = ("0".repeat(131_071), "1".repeat(16_384));
        assert_eq!(found(&format!("1{zeros}")), None);
        assert_eq!(found(&format!("[10{zeros}]")).map(|(at, text)| (at, text.len())), Some((1, 40)));
        assert_eq!(found(&format!("0.{ones}e1")), None);
        assert!(found(&format!("0.{ones}")).is_some());
    }
}
