//! Args and meta: whether `jsonb` holds them, and whether what it holds can be read back.
//!
//! The client refuses the values that `insert_job` refuses in the database: a job that no Rust program
//! can read would fail every page of a list that it is on.

use std::io;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::json::{self, MAX_DEPTH, Token, is_beyond_numeric, tokens};

const NUL_PROBLEM: &str = "PostgreSQL cannot store the character NUL: \\u0000";
const DEPTH_PROBLEM: &str = "values nest too deeply: \"more than 127 levels\"";

/// From this length on each number is looked at: PostgreSQL's `numeric` has as many digits after its point.
const LONG_TEXT: usize = 16_384;

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
    misfit(args.get())
        .map_or(Ok(()), |problem| Err(Error::InvalidJson { what: "args", kind: kind.to_owned(), problem }))
}

/// Checks meta, itself the first level of it.
pub(in crate::client) fn check_meta(kind: &str, meta: &Map<String, Value>) -> Result<()> {
    json::check_members("meta", kind, meta)?;
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
        Token::Other('[' | '{') => {
            depth += 1;
            (depth > MAX_DEPTH).then(|| DEPTH_PROBLEM.to_owned())
        }
        Token::Other(']' | '}') => {
            depth = depth.saturating_sub(1);
            None
        }
        Token::Text(text) => match unstorable(text)? {
            (_, "\\u0000") => Some(NUL_PROBLEM.to_owned()),
            (place, half) => refused("half of a surrogate pair", at + place, half),
        },
        Token::Number(number) if is_beyond_numeric(number) => refused("a number of so many digits", at, number),
        Token::Number(_) | Token::Other(_) => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_real_nul_is_refused() {
        assert_eq!(misfit(r#"{"a":"x\u0000"}"#).as_deref(), Some(NUL_PROBLEM));
        assert_eq!(misfit(r#"{"a":"x\\u0000"}"#), None);
        assert_eq!(misfit(r#"{"a":"x\\\u0000"}"#).as_deref(), Some(NUL_PROBLEM));
        assert_eq!(misfit("{}"), None);
    }

    #[test]
    fn text_is_too_deep_exactly_when_it_cannot_be_read_back() {
        let is_too_deep = |json: &str| misfit(json).is_some_and(|problem| problem == DEPTH_PROBLEM);
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
