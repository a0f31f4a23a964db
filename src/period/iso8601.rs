//! Reads ISO 8601 durations of a fixed length.
//!
//! jiff does not fit here. It refuses fractions of days and weeks and fractions of more than nine
//! digits, it reads lower case, and its errors do not tell the reasons apart. The SQL function
//! `period_seconds` gives the same lengths and the same reasons as this file.
//!
//! The library and its derive macro each hold this file, because the macro is built before the
//! library. A test of the macro compares the two.

use std::time::Duration;

/// The longest length of time: 100 years of 365.25 days.
pub(crate) const LONGEST: Duration = Duration::from_secs(36_525 * 86_400);

pub(crate) const TOO_LONG: &str = "must not be longer than 100 years";
pub(crate) const TOO_SHORT: &str = "must be longer than nothing";
pub(crate) const TOO_FINE: &str = "must be whole microseconds";
const MALFORMED: &str = "is not an ISO 8601 duration";

/// Each unit and its length in microseconds, in the order in which they are written.
const UNITS: [(char, u64); 5] =
    [('W', 604_800_000_000), ('D', 86_400_000_000), ('H', 3_600_000_000), ('M', 60_000_000), ('S', 1_000_000)];

/// Reads a duration such as `P1W` or `P2DT3H4M5.5S`.
///
/// # Errors
///
/// The reason why the text is not such a duration.
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

/// Splits `15M…` into its number, its unit and what follows.
fn split_part(text: &str) -> Option<(&str, char, &str)> {
    let (at, unit) = text.char_indices().find(|(_, next)| next.is_ascii_alphabetic())?;
    Some((&text[..at], unit, &text[at + 1..]))
}

/// Returns a decimal number of units in microseconds.
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
        // More than 13 digits are never whole microseconds, even of a week. A u64 holds 19.
        return Err(TOO_FINE);
    } else {
        let parts = u128::from(fraction.parse::<u64>().map_err(|_| TOO_FINE)?) * u128::from(size);
        let scale = 10_u128.pow(fraction.len() as u32);
        if parts % scale != 0 {
            return Err(TOO_FINE);
        }
        // Less than `size`, so a u64 holds it.
        (parts / scale) as u64
    };
    whole.checked_mul(size).and_then(|whole| whole.checked_add(parts)).ok_or(TOO_LONG)
}
