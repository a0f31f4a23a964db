//! JSON that PostgreSQL's `jsonb` cannot hold: half of a surrogate pair, and numbers with too many digits.
//!
//! Rust's strings and doubles have neither. JSON text that a caller brings can have both.

/// The most digits of a number before its point, and after it.
const MAX_WHOLE_DIGITS: i64 = 131_072;
const MAX_FRACTION_DIGITS: i64 = 16_383;

/// From here on PostgreSQL refuses an exponent, whatever stands before it.
const TOO_LARGE_EXPONENT: u64 = (i32::MAX / 2) as u64;

/// A part of JSON text that `jsonb` cannot hold.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Misfit<'a> {
    pub(super) what: &'static str,
    /// Counted from 0.
    pub(super) at: usize,
    /// The part, or the beginning of a long one.
    pub(super) text: &'a str,
}

/// The first misfit of a JSON text.
pub(super) fn find_misfit(json: &str) -> Option<Misfit<'_>> {
    // Nearly all texts have none of these, which is found out in a fraction of the time.
    let has_exponent = || json.as_bytes().windows(2).any(|pair| pair[0].is_ascii_digit() && pair[1] | 0x20 == b'e');
    let has_surrogate = || json.contains('\\') && (json.contains("\\ud") || json.contains("\\uD"));
    if json.len() as i64 <= MAX_FRACTION_DIGITS && !has_exponent() && !has_surrogate() {
        return None;
    }
    let bytes = json.as_bytes();
    let mut at = 0;
    let mut is_string = false;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => is_string = !is_string,
            // The text is JSON, so a backslash stands in a string only.
            b'\\' => match (surrogate(json, at), surrogate(json, at + 6)) {
                (None, _) => at += 1,
                (Some(Surrogate::High), Some(Surrogate::Low)) => at += 11,
                (Some(_), _) => return Some(misfit("half of a surrogate pair", json, at, at + 6)),
            },
            b'-' | b'0'..=b'9' if !is_string => {
                let is_number = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                let end = at + bytes[at..].iter().take_while(is_number).count();
                if has_too_many_digits(&json[at..end]) {
                    return Some(misfit("a number of so many digits", json, at, end));
                }
                at = end - 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

fn misfit<'a>(what: &'static str, json: &'a str, at: usize, end: usize) -> Misfit<'a> {
    // The bytes of both kinds are ASCII, so this is a slice between characters.
    Misfit { what, at, text: &json[at..end.min(at + 40)] }
}

enum Surrogate {
    High,
    Low,
}

/// The surrogate that is escaped here.
fn surrogate(json: &str, at: usize) -> Option<Surrogate> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xD800..=0xDBFF => Some(Surrogate::High),
        0xDC00..=0xDFFF => Some(Surrogate::Low),
        _ => None,
    }
}

/// Whether a number has more digits than PostgreSQL's `numeric`, written out without its exponent.
fn has_too_many_digits(number: &str) -> bool {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let Ok(exponent) = exponent.parse::<i64>() else { return true };
    if exponent.unsigned_abs() >= TOO_LARGE_EXPONENT {
        return true;
    }
    let mantissa = mantissa.trim_start_matches('-');
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole.bytes().chain(fraction.bytes());
    let length = |text: &str| text.len() as i64;
    let whole_digits = match digits.enumerate().find(|(_, digit)| *digit != b'0') {
        Some((zeros, _)) => length(whole) - zeros as i64 + exponent,
        None => 0,
    };
    whole_digits > MAX_WHOLE_DIGITS || length(fraction) - exponent > MAX_FRACTION_DIGITS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str) -> Option<(usize, &str)> {
        find_misfit(json).map(|misfit| (misfit.at, misfit.text))
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
            assert_eq!(found(json), expected, "{json}");
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
            assert_eq!(found(json), expected, "{json}");
        }
        let (zeros, ones) = ("0".repeat(131_071), "1".repeat(16_384));
        assert_eq!(found(&format!("1{zeros}")), None);
        assert_eq!(found(&format!("[10{zeros}]")).map(|(at, text)| (at, text.len())), Some((1, 40)));
        assert_eq!(found(&format!("0.{ones}e1")), None);
        assert!(found(&format!("0.{ones}")).is_some());
    }
}
