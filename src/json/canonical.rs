//! Canonical JSON text: two values are the same exactly when their canonical texts are.
//!
//! The text is RFC 8785 (members sorted by UTF-16 code units at every level, no white space,
//! ECMAScript's number text) after Unicode NFC of every string and member name, with one
//! exception: integers from −2^63 to 2^64−1 keep all their digits. RFC 8785's doubles would make
//! 9007199254740993 and 9007199254740992 one key, and ids of that size are in everyday use.
//!
//! The text is streamed into a [`Sink`]. The common cases cost no allocation: strings whose
//! characters are all below U+0300, which NFC leaves as they are, and objects whose members come
//! sorted, as `serde_json`'s map keeps them.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Number, Value};
use sha2::{Digest, Sha256};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::flaw::Flaw;
use super::number;
use crate::error::Result;

/// How many arrays and objects may nest: as many as `serde_json` reads back.
pub(crate) const MAX_DEPTH: usize = 127;

/// The canonical text of a value, from which keys are made.
///
/// ```
/// let value = serde_json::json!({"b": 1.0, "a": [1e2, "e\u{301}"]});
/// assert_eq!(uniqueue::json::canonical_json(&value)?, r#"{"a":[100,"é"],"b":1}"#);
/// # Ok::<(), uniqueue::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::InvalidKey`](crate::Error::InvalidKey) when two members of an object have one name
/// after NFC, when values nest deeper than 127 levels, or when the value has a number that a double cannot hold, as it
/// can with `serde_json`'s `arbitrary_precision`.
pub fn canonical_json(value: &Value) -> Result<String> {
    let mut text = String::new();
    write(value, &mut text).map_err(Flaw::in_key)?;
    Ok(text)
}

/// Where canonical text goes: a string to read, or a hash.
pub(crate) trait Sink {
    /// Appends text.
    fn put(&mut self, text: &str);
}

impl Sink for String {
    fn put(&mut self, text: &str) {
        self.push_str(text);
    }
}

impl Sink for Sha256 {
    fn put(&mut self, text: &str) {
        self.update(text.as_bytes());
    }
}

/// Writes a value's canonical text.
pub(crate) fn write(value: &Value, sink: &mut impl Sink) -> Result<(), Flaw> {
    write_value(value, 0, sink)
}

/// Writes a value that stands inside `depth` arrays and objects.
pub(crate) fn write_value<S: Sink>(value: &Value, depth: usize, sink: &mut S) -> Result<(), Flaw> {
    match value {
        Value::Null => sink.put("null"),
        Value::Bool(true) => sink.put("true"),
        Value::Bool(false) => sink.put("false"),
        Value::Number(number) => write_number(number, sink)?,
        Value::String(text) => {
            number::check_text(text)?;
            write_text(text, sink);
        }
        Value::Array(items) => {
            write_items(items.iter(), depth, sink, |item, depth, sink| write_value(item, depth, sink))?;
        }
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.as_str(), value));
            write_members(members, depth, sink, |value, depth, sink| write_value(value, depth, sink))?;
        }
    }
    Ok(())
}

/// Writes an array; `write_item` is given the depth inside it.
pub(crate) fn write_items<T, S: Sink>(
    items: impl Iterator<Item = T>,
    depth: usize,
    sink: &mut S,
    mut write_item: impl FnMut(T, usize, &mut S) -> Result<(), Flaw>,
) -> Result<(), Flaw> {
    let depth = deeper(depth)?;
    let mut separator = "[";
    for item in items {
        sink.put(separator);
        write_item(item, depth, sink)?;
        separator = ",";
    }
    sink.put(if separator == "[" { "[]" } else { "]" });
    Ok(())
}

/// Writes an object, its members in any order; `write_member` is given the depth inside it.
pub(crate) fn write_members<'a, T, S: Sink>(
    members: impl Iterator<Item = (&'a str, T)> + Clone,
    depth: usize,
    sink: &mut S,
    mut write_member: impl FnMut(T, usize, &mut S) -> Result<(), Flaw>,
) -> Result<(), Flaw> {
    let depth = deeper(depth)?;
    let mut separator = "{";
    let mut put = |name: &str, member: T, sink: &mut S| {
        sink.put(separator);
        separator = ",";
        write_string(name, sink);
        sink.put(":");
        write_member(member, depth, sink)
    };
    if members_are_sorted(members.clone().map(|(name, _)| name)) {
        for (name, member) in members {
            put(name, member, sink)?;
        }
    } else {
        let mut members: Vec<_> = members.map(|(name, member)| (nfc(name), member)).collect();
        members.sort_by(|(left, _), (right, _)| utf16_order(left, right));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Flaw::new("two members have one name after Unicode NFC", &pair[0].0));
        }
        for (name, member) in members {
            put(&name, member, sink)?;
        }
    }
    sink.put(if separator == "{" { "{}" } else { "}" });
    Ok(())
}

/// Writes a string in NFC.
pub(crate) fn write_text(text: &str, sink: &mut impl Sink) {
    write_string(&nfc(text), sink);
}

/// Writes a JSON string as RFC 8785 and ECMAScript do; the text is not normalized here.
pub(crate) fn write_string(text: &str, sink: &mut impl Sink) {
    sink.put("\"");
    let mut rest = text;
    while let Some(at) = rest.bytes().position(must_be_escaped) {
        sink.put(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => sink.put("\\\""),
            b'\\' => sink.put("\\\\"),
            0x08 => sink.put("\\b"),
            b'\t' => sink.put("\\t"),
            b'\n' => sink.put("\\n"),
            0x0c => sink.put("\\f"),
            b'\r' => sink.put("\\r"),
            control => sink.put(&format!("\\u{control:04x}")),
        }
        rest = &rest[at + 1..];
    }
    sink.put(rest);
    sink.put("\"");
}

/// Writes a double as ECMAScript's `Number::toString` does; −0 is `0`.
pub(crate) fn write_double(double: f64, sink: &mut impl Sink) {
    sink.put(ryu_js::Buffer::new().format(double));
}

/// ECMAScript's order of strings, which RFC 8785 follows. It differs from the order of UTF-8
/// only where characters from U+E000 up meet characters above U+FFFF.
pub(crate) fn utf16_order(left: &str, right: &str) -> Ordering {
    left.encode_utf16().cmp(right.encode_utf16())
}

fn write_number(given: &Number, sink: &mut impl Sink) -> Result<(), Flaw> {
    if let Some(integer) = given.as_u64() {
        write_integer(integer, sink);
    } else if let Some(integer) = given.as_i64() {
        // Never "-0": with `arbitrary_precision` that is an integer too.
        sink.put(if integer < 0 { "-" } else { "" });
        write_integer(integer.unsigned_abs(), sink);
    } else {
        let double = given.as_f64().unwrap_or(f64::INFINITY);
        // Not so only with serde_json's `arbitrary_precision`, which keeps the text of a number.
        if Number::from_f64(double).as_ref() != Some(given) {
            number::check_double(&given.to_string())?;
        }
        write_double(double, sink);
    }
    Ok(())
}

fn write_integer(mut integer: u64, sink: &mut impl Sink) {
    let mut digits = [b'0'; 20];
    let mut start = digits.len() - 1;
    loop {
        digits[start] = b'0' + (integer % 10) as u8;
        integer /= 10;
        if integer == 0 {
            break;
        }
        start -= 1;
    }
    // Digits are ASCII, so this is never empty.
    sink.put(str::from_utf8(&digits[start..]).unwrap_or_default());
}

fn must_be_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn nfc(text: &str) -> Cow<'_, str> {
    if is_below_combining(text) || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfc().collect())
    }
}

/// Whether every character is below U+0300, the first that NFC may change: its UTF-8 begins
/// with 0xCC, and no byte of a lower character is that large.
fn is_below_combining(text: &str) -> bool {
    text.bytes().all(|byte| byte < 0xcc)
}

/// Whether the names can be written in the order they come in. The order is checked, not
/// assumed: with `preserve_order` a map keeps its own.
fn members_are_sorted<'a>(mut names: impl Iterator<Item = &'a str>) -> bool {
    let Some(mut last) = names.next() else {
        return true;
    };
    is_below_combining(last)
        && names.all(|name| {
            let follows = last < name && is_below_combining(name);
            last = name;
            follows
        })
}

fn deeper(depth: usize) -> Result<usize, Flaw> {
    if depth < MAX_DEPTH { Ok(depth + 1) } else { Err(too_deep()) }
}

/// The flaw of a value in more arrays and objects than [`MAX_DEPTH`].
pub(super) fn too_deep() -> Flaw {
    Flaw::new("values nest too deeply", "more than 127 levels")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_character_below_u0300_is_left_alone_by_nfc() {
        let all: String = ('\0'..'\u{300}').collect();
        assert!(is_below_combining(&all));
        assert_eq!(all.nfc().collect::<String>(), all);
        assert!(!is_below_combining("\u{300}"));
    }

    #[test]
    fn depth_is_limited_to_what_json_text_may_have() {
        let nest = |levels| (0..levels).fold(json!(1), |inner, _| Value::Array(vec![inner]));
        let deepest = canonical_json(&nest(MAX_DEPTH)).unwrap();
        assert!(serde_json::from_str::<Value>(&deepest).is_ok());
        assert!(serde_json::from_str::<Value>(&format!("[{deepest}]")).is_err());
        assert!(canonical_json(&nest(MAX_DEPTH + 1)).is_err());
        assert!(canonical_json(&nest(5_000)).is_err());
    }
}
