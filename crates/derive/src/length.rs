//! Reads lengths of time: short, such as `1h30m`, as the command does, or in ISO 8601.

use std::time::Duration;

use crate::iso8601::{self, LONGEST, TOO_LONG, TOO_SHORT};

/// Each unit and its length in microseconds, in the order in which they are written.
const UNITS: [(&str, u64); 7] = [
    ("w", 604_800_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Reads a length such as `5s`, `1h30m` or `PT5S`.
///
/// # Errors
///
/// The reason why the text is not such a length.
pub(crate) fn parse(text: &str) -> Result<Duration, &'static str> {
    if is_iso8601(text) { iso8601::parse(text) } else { short(text) }
}

/// Reads a length that may have years and months where it is in ISO 8601: the months, and the rest.
///
/// # Errors
///
/// The reason why the text is not such a length.
pub(crate) fn parse_calendar(text: &str) -> Result<(u32, Duration), &'static str> {
    if is_iso8601(text) { iso8601::parse_calendar(text) } else { short(text).map(|length| (0, length)) }
}

fn is_iso8601(text: &str) -> bool {
    text.starts_with('P') || text.starts_with("-P")
}

fn short(text: &str) -> Result<Duration, &'static str> {
    const MALFORMED: &str = "is not a length of time";

    if text == "0" {
        return Err(TOO_SHORT);
    } else if text.is_empty() {
        return Err(MALFORMED);
    }
    let mut units = UNITS.iter();
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
        let (unit, after) = after.split_at(after.bytes().take_while(u8::is_ascii_lowercase).count());
        let (_, size) = units.find(|(name, _)| *name == unit).ok_or(MALFORMED)?;
        if number.is_empty() {
            return Err(MALFORMED);
        }
        let length = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*size)).ok_or(TOO_LONG)?;
        total = total.checked_add(length).ok_or(TOO_LONG)?;
        rest = after;
    }
    match Duration::from_micros(total) {
        Duration::ZERO => Err(TOO_SHORT),
        length if length > LONGEST => Err(TOO_LONG),
        length => Ok(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lengths_are_those_of_iso8601() {
        for (short, iso8601) in [
            ("5s", "PT5S"),
            ("15m", "PT15M"),
            ("1h30m", "PT1H30M"),
            ("90m", "PT1H30M"),
            ("7d", "P1W"),
            ("2w1d", "P15D"),
            ("500ms", "PT0.5S"),
            ("1s5us", "PT1.000005S"),
            ("0h1m", "PT1M"),
            ("36525d", "P36525D"),
        ] {
            assert_eq!(parse(short), iso8601::parse(iso8601), "{short}");
            assert_eq!(parse_calendar(short), parse_calendar(iso8601), "{short}");
        }
        assert_eq!(parse_calendar("P1M"), Ok((1, Duration::ZERO)));
    }

    #[test]
    fn anything_else_is_refused_with_its_reason() {
        for text in ["", "5", "s", "5 s", "5S", "1.5h", "-5s", "5s1m", "1m1m", "1mo", "1y", "five", "5s\u{e9}", "p1d"] {
            assert_eq!(parse(text), Err("is not a length of time"), "{text:?}");
        }
        for text in ["0", "0s", "0m0s"] {
            assert_eq!(parse(text), Err(TOO_SHORT), "{text:?}");
        }
        for text in ["36526d", "99999999999999999999s", "18446744073709551615w", "18446744073709s600000ms"] {
            assert_eq!(parse(text), Err(TOO_LONG), "{text:?}");
        }
        assert_eq!(parse("P1M"), Err("years and months have no fixed length"));
    }
}
