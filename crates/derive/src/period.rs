//! ISO 8601 durations, checked while the program is compiled.
//!
//! The rules and the words are those of the library's own `period`, which this crate, being
//! built first, cannot call.

use std::time::Duration;

/// The longest length of time: 100 years of 365.25 days.
const LONGEST: Duration = Duration::from_secs(36_525 * 86_400);

/// Each unit of length in microseconds, in the order of writing.
const UNITS: [(char, u64); 5] =
    [('W', 604_800_000_000), ('D', 86_400_000_000), ('H', 3_600_000_000), ('M', 60_000_000), ('S', 1_000_000)];

const MALFORMED: &str = "is not an ISO 8601 duration";
const TOO_LONG: &str = "must not be longer than 100 years";
const TOO_SHORT: &str = "must be longer than nothing";
const TOO_FINE: &str = "must be whole microseconds";

/// Reads `P1W`, `P2DT3H4M5.5S` and their like.
///
/// # Errors
///
/// Says in a few words what is wrong.
pub(crate) fn parse(text: &str) -> Result<Duration, &'static str> {
    microseconds(text).map(Duration::from_micros)
}

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
    } else {
        // Even of a week, more than 13 digits are never whole microseconds, and 19 fit.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_their_length() {
        for (text, seconds) in [
            ("P1W", 604_800.0),
            ("P7D", 604_800.0),
            ("P1W1DT1H1M1S", 694_861.0),
            ("PT1H", 3600.0),
            ("PT15M", 900.0),
            ("PT1.5H", 5400.0),
            ("P1DT2H3M4.5S", 93_784.5),
            ("PT0,25S", 0.25),
            ("PT0.5000000000S", 0.5),
            ("PT0H5M", 300.0),
            ("P36525D", 3_155_760_000.0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
    }

    #[test]
    fn malformed_zero_and_endless_durations_are_refused() {
        for text in [
            "",
            "P",
            "PT",
            "1H",
            "P1",
            "PT1",
            "PH",
            "P1H",
            "PT1D",
            "P1Y",
            "P1M",
            "P1D1W",
            "P1D1D",
            "PT1M1H",
            "PT1S1S",
            "PT1.5H1M",
            "PT.S",
            "PT1.S",
            "PT.5S",
            "PT1.5.5S",
            "PT0S",
            "P0D",
            "PT0.0000001S",
            "-PT1H",
            "P-1D",
            "pt1h",
            " PT1H",
            "PT1H ",
            "P1DT",
            "PT1Hx",
            "P36526D",
            "PT99999999999999999999S",
            "P999999999999999999D",
            "PT1é",
            "P１D",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
