//! Lengths of time as policies write them, and the [windows](Window) that divide time.
//!
//! A length is an ISO 8601 duration of weeks, days, hours, minutes and seconds: `PT15M`, `P7D`,
//! `P1DT12H`, `PT0.5S`. A day is 24 hours and a week 7 days, whatever the time zone. Years and
//! months have no fixed length and are refused.

use std::time::Duration;

use crate::error::{Error, Result};

mod window;

pub use window::{Window, check_window, window};

/// The longest length of time: 100 years of 365.25 days.
pub const LONGEST: Duration = Duration::from_secs(36_525 * 86_400);

/// Reads an ISO 8601 duration.
///
/// Units come in order (`W D T H M S`), each at most once; the last one may have a fraction, set
/// off by a point or a comma. Limits: more than nothing, at most [`LONGEST`], whole microseconds.
///
/// # Errors
///
/// [`Error::InvalidPeriod`].
pub fn parse(text: &str) -> Result<Duration> {
    microseconds(text).map(Duration::from_micros).map_err(|problem| refused(problem, text))
}

/// Writes a length of time as an ISO 8601 duration, the parts that are nothing left out: `P7D`,
/// `PT1H30M`, `PT0.25S`. [`parse`] reads it back as the same length.
#[must_use]
pub fn write(length: Duration) -> String {
    let (days, seconds) = (length.as_secs() / 86_400, length.as_secs() % 86_400);
    let nanoseconds = length.subsec_nanos();
    let mut text = String::from("P");
    push_part(&mut text, days, 'D');
    if seconds > 0 || nanoseconds > 0 || days == 0 {
        text.push('T');
        push_part(&mut text, seconds / 3_600, 'H');
        push_part(&mut text, seconds % 3_600 / 60, 'M');
        if nanoseconds > 0 {
            let fraction = format!("{nanoseconds:09}");
            text += &format!("{}.{}S", seconds % 60, fraction.trim_end_matches('0'));
        } else {
            push_part(&mut text, seconds % 60, 'S');
        }
        if text == "PT" {
            text += "0S";
        }
    }
    text
}

/// Checks a length of time against the limits of [`parse`].
///
/// # Errors
///
/// [`Error::InvalidPeriod`].
pub fn check(length: Duration) -> Result<()> {
    let problem = if length.is_zero() {
        TOO_SHORT
    } else if length > LONGEST {
        TOO_LONG
    } else if !length.subsec_nanos().is_multiple_of(1_000) {
        TOO_FINE
    } else {
        return Ok(());
    };
    Err(refused(problem, &write(length)))
}

const UNITS: [(char, u64); 5] =
    [('W', 604_800_000_000), ('D', 86_400_000_000), ('H', 3_600_000_000), ('M', 60_000_000), ('S', 1_000_000)];

const MALFORMED: &str = "is not an ISO 8601 duration";
const TOO_LONG: &str = "must not be longer than 100 years";
const TOO_SHORT: &str = "must be longer than nothing";
const TOO_FINE: &str = "must be whole microseconds";

fn microseconds(text: &str) -> Result<u64, &'static str> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let mut rest = unsigned.strip_prefix('P').ok_or(MALFORMED)?;
    if text.contains('-') {
        return Err("must not be negative");
    }
    if rest.is_empty() {
        return Err(MALFORMED);
    }
    let mut units = UNITS[..2].iter();
    let mut in_time = false;
    let mut had_fraction = false;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T')
            && !in_time
            && !time.is_empty()
        {
            in_time = true;
            units = UNITS[2..].iter();
            rest = time;
        }
        let (number, unit, after) = split_part(rest).ok_or(MALFORMED)?;
        if unit == 'Y' || unit == 'M' && !in_time {
            return Err("years and months have no fixed length");
        }
        let (_, size) = units.find(|(name, _)| *name == unit).ok_or(MALFORMED)?;
        if had_fraction {
            return Err("only the last unit may have a fraction");
        }
        had_fraction = number.contains(['.', ',']);
        total = total.checked_add(times(number, *size)?).ok_or(TOO_LONG)?;
        rest = after;
    }
    if total == 0 {
        Err(TOO_SHORT)
    } else if u128::from(total) > LONGEST.as_micros() {
        Err(TOO_LONG)
    } else {
        Ok(total)
    }
}

/// Splits `15M…` into its number, its unit and the rest.
fn split_part(text: &str) -> Option<(&str, char, &str)> {
    let (at, unit) = text.char_indices().find(|(_, next)| next.is_ascii_alphabetic())?;
    Some((&text[..at], unit, &text[at + 1..]))
}

/// A decimal number of units, in microseconds.
fn times(number: &str, size: u64) -> Result<u64, &'static str> {
    let (whole, fraction) = match number.split_once(['.', ',']) {
        Some((_, "")) => return Err(MALFORMED),
        Some((whole, fraction)) => (whole, fraction.trim_end_matches('0')),
        None => (number, ""),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return Err(MALFORMED);
    }
    let whole: u64 = whole.parse().map_err(|_| TOO_LONG)?;
    let parts = if fraction.is_empty() {
        0
    } else if fraction.len() > 19 {
        // Even of a week, more than 13 digits are never whole microseconds, and 19 fit.
        return Err(TOO_FINE);
    } else {
        let parts = u128::from(fraction.parse::<u64>().map_err(|_| TOO_FINE)?) * u128::from(size);
        let scale = 10_u128.pow(fraction.len() as u32);
        if parts % scale != 0 {
            return Err(TOO_FINE);
        }
        // A fraction of the size, which is a u64.
        (parts / scale) as u64
    };
    whole.checked_mul(size).and_then(|whole| whole.checked_add(parts)).ok_or(TOO_LONG)
}

fn push_part(text: &mut String, count: u64, unit: char) {
    if count > 0 {
        text.push_str(&count.to_string());
        text.push(unit);
    }
}

fn refused(problem: &'static str, given: &str) -> Error {
    Error::InvalidPeriod { problem, given: given.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_read_as_their_length() {
        for (text, length) in [
            ("PT5M", Duration::from_secs(300)),
            ("PT1H", Duration::from_secs(3_600)),
            ("P1D", Duration::from_secs(86_400)),
            ("P7D", Duration::from_secs(604_800)),
            ("P1W", Duration::from_secs(604_800)),
            ("P1W1DT1H1M1S", Duration::from_secs(694_861)),
            ("PT90M", Duration::from_secs(5_400)),
            ("PT0.5H", Duration::from_secs(1_800)),
            ("P0,5D", Duration::from_secs(43_200)),
            ("PT1M0.25S", Duration::from_millis(60_250)),
            ("PT0.000001S", Duration::from_micros(1)),
            ("PT0.5000000000S", Duration::from_millis(500)),
            ("PT00600S", Duration::from_secs(600)),
            ("P36525D", LONGEST),
        ] {
            assert_eq!(parse(text).unwrap(), length, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_usable_duration_is_refused_by_reason() {
        for (text, problem) in [
            ("", MALFORMED),
            ("P", MALFORMED),
            ("PT", MALFORMED),
            ("P1DT", MALFORMED),
            ("1D", MALFORMED),
            ("PX", MALFORMED),
            ("p1d", MALFORMED),
            ("P1", MALFORMED),
            ("PD", MALFORMED),
            ("P1H", MALFORMED),
            ("PT1D", MALFORMED),
            ("PT1M1H", MALFORMED),
            ("PT1H1H", MALFORMED),
            ("PT1HT1M", MALFORMED),
            ("PT1.S", MALFORMED),
            ("PT.5S", MALFORMED),
            ("PT1e3S", MALFORMED),
            ("PT+1S", MALFORMED),
            (" PT1S", MALFORMED),
            ("PT1S ", MALFORMED),
            ("PT１S", MALFORMED),
            ("one hour", MALFORMED),
            ("P1M", "years and months have no fixed length"),
            ("P1Y", "years and months have no fixed length"),
            ("-P1D", "must not be negative"),
            ("P-1D", "must not be negative"),
            ("PT0S", TOO_SHORT),
            ("P0D", TOO_SHORT),
            ("PT0.5H1M", "only the last unit may have a fraction"),
            ("PT0.0000001S", TOO_FINE),
            ("PT0.0000000000000000000000000000001H", TOO_FINE),
            ("PT0.00000000000000000000000000000000000000001S", TOO_FINE),
            ("P36525DT1S", TOO_LONG),
            ("P99999999999999999999D", TOO_LONG),
            ("PT18446744073709551615S", TOO_LONG),
        ] {
            match parse(text) {
                Err(Error::InvalidPeriod { problem: found, given }) => {
                    assert_eq!((found, given.as_str()), (problem, text));
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn durations_are_written_without_empty_parts() {
        for (length, text) in [
            (Duration::from_secs(900), "PT15M"),
            (Duration::from_secs(604_800), "P7D"),
            (Duration::from_secs(5_400), "PT1H30M"),
            (Duration::from_secs(86_401), "P1DT1S"),
            (Duration::from_micros(1), "PT0.000001S"),
            (Duration::from_millis(60_250), "PT1M0.25S"),
            (Duration::ZERO, "PT0S"),
        ] {
            assert_eq!(write(length), text);
        }
    }

    proptest! {
        #[test]
        fn a_written_duration_reads_back(microseconds in 1..=LONGEST.as_micros() as u64) {
            let length = Duration::from_micros(microseconds);
            prop_assert_eq!(parse(&write(length)).unwrap(), length);
        }

        #[test]
        fn no_text_panics(text in "P?[-0-9WDTHMSY.,]{0,24}") {
            let _ = parse(&text);
        }
    }
}
