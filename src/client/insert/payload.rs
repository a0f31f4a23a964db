//! Args and meta: whether `jsonb` holds them, and whether what it holds can be read back.
//!
//! The client refuses the values that `insert_job` refuses in the database: a job that no Rust program
//! can read would fail every page of a list that it is on.

use std::io;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::misfit::{Misfit, find_misfit};
use crate::error::{Error, Result};
use crate::unique::{MAX_DEPTH, check_jsonb_members, read_json};

const NUL_PROBLEM: &str = "PostgreSQL cannot store the character NUL: \\u0000";
const DEPTH_PROBLEM: &str = "values nest too deeply: \"more than 127 levels\"";

/// The most bytes of a job's args as JSON text, unless the client has another limit.
pub(in crate::client) const MAX_ARGS_BYTES: usize = 1 << 20;

/// The most bytes of a job's meta as JSON text. `insert_job` has the same limit.
const MAX_META_BYTES: usize = 1 << 20;

/// Checks args. They are text, and stay text: this looks at each byte of every insert.
pub(in crate::client) fn check_args(kind: &str, args: &RawValue, max_bytes: usize) -> Result<()> {
    let bytes = args.get().len();
    if bytes > max_bytes {
        let problem = format!("longer than {max_bytes} bytes: {bytes} bytes");
        return Err(Error::InvalidJson { what: "args", kind: kind.to_owned(), problem });
    }
    let problem = if holds_nul(args.get()) {
        NUL_PROBLEM.to_owned()
    } else if is_too_deep(args.get()) {
        DEPTH_PROBLEM.to_owned()
    } else if let Some(Misfit { what, at, text }) = find_misfit(args.get()) {
        format!("PostgreSQL cannot store {what} at byte {at}: {text}")
    } else {
        return Ok(());
    };
    Err(Error::InvalidJson { what: "args", kind: kind.to_owned(), problem })
}

/// Checks meta, itself the first level of it.
pub(in crate::client) fn check_meta(kind: &str, meta: &Map<String, Value>) -> Result<()> {
    check_jsonb_members("meta", kind, meta)?;
    if is_longer(meta, MAX_META_BYTES) {
        let problem = format!("longer than {MAX_META_BYTES} bytes");
        return Err(Error::InvalidJson { what: "meta", kind: kind.to_owned(), problem });
    }
    Ok(())
}

/// Whether the JSON text of an object has more bytes than this.
fn is_longer(object: &Map<String, Value>, max_bytes: usize) -> bool {
    /// A writer that fails when nothing is left.
    struct Left(usize);
    impl io::Write for Left {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::WriteZero)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    !object.is_empty() && serde_json::to_writer(Left(max_bytes), object).is_err()
}

/// Reads args that a key is made from.
pub(in crate::client) fn read_args(kind: &str, args: &RawValue) -> Result<Value> {
    read_json(args.get()).map_err(|flaw| flaw.in_json("args", kind))
}

/// Whether JSON text holds an escaped NUL, which `jsonb` refuses. An escaped backslash before
/// `u0000` makes it plain text.
fn holds_nul(json: &str) -> bool {
    // Most have no backslash, which is found out in a fraction of the time.
    json.contains('\\')
        && json.match_indices("\\u0000").any(|(at, _)| {
            let backslashes = json[..at].bytes().rev().take_while(|b| *b == b'\\').count();
            backslashes % 2 == 0
        })
}

/// Whether arrays and objects of JSON text nest deeper than they can be read back.
fn is_too_deep(json: &str) -> bool {
    // Nearly all have fewer brackets than that, and counting takes a fraction of the time.
    json.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() > MAX_DEPTH && depth(json) > MAX_DEPTH
}

/// How deep arrays and objects nest. The text is JSON, so a backslash stands in a string only.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut is_string = false;
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_string = !is_string,
            b'\\' => drop(bytes.next()),
            b'[' | b'{' if !is_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_real_nul_is_refused() {
        assert!(holds_nul(r#"{"a":"x\u0000"}"#));
        assert!(!holds_nul(r#"{"a":"x\\u0000"}"#));
        assert!(holds_nul(r#"{"a":"x\\\u0000"}"#));
        assert!(!holds_nul("{}"));
    }

    #[test]
    fn depth_is_counted_outside_of_strings() {
        for (json, expected) in [
            ("1", 0),
            ("{}", 1),
            (r#"{"a":[1,{"b":[]}],"c":[]}"#, 4),
            (r#"["[[[[{{{{"]"#, 1),
            (r#"["\"[[[\\",[]]"#, 2),
            (r#"{"\\\"[":[]}"#, 2),
        ] {
            assert_eq!(depth(json), expected, "{json}");
        }
    }

    #[test]
    fn text_is_too_deep_exactly_when_it_cannot_be_read_back() {
        for levels in [1, 126, 127, 128, 129, 100_000] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let json = format!("{}1{}", open.repeat(levels), close.repeat(levels));
                assert_eq!(is_too_deep(&json), serde_json::from_str::<Value>(&json).is_err(), "{levels}");
            }
        }
        assert!(!is_too_deep(&format!("[{}[]]", "[],".repeat(1_000))));
    }
}
