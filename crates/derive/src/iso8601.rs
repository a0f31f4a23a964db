//! Reads ISO 8601 durations: of a fixed length, or with calendar years and months.
//!
//! jiff does not fit here. It refuses fractions of days and weeks and fractions of more than nine
//! digits, it reads lower case, and its errors do not tell the reasons apart. The SQL function
//! `_period_length` gives the same lengths and the same reasons as this file.
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

/// The mean length of a month in microseconds. Only the limit of 100 years uses it.
const MEAN_MONTH: u64 = 2_629_800_000_000;

/// Each unit of the date and its length in microseconds, in the order in which they are written.
const DATE_UNITS: [(char, u64); 4] =
    [('Y', 12 * MEAN_MONTH), ('M', MEAN_MONTH), ('W', 604_800_000_000), ('D', 86_400_000_000)];

/// Each unit after the `T`.
const TIME_UNITS: [(char, u64); 3] = [('H', 3_600_000_000), ('M', 60_000_000), ('S', 1_000_000)];

/// Reads a duration such as `P1W` or `P2DT3H4M5.5S`.
///
/// # Errors
///
/// The reason why the text is not such a duration.
pub(crate) fn parse(text: &str) -> Result<Duration, &'static str> {
    read(text, false).map(|(_, length)| length)
}

/// Reads a duration that may have years and months, such as `P1Y2M3DT4H`: the months, and the rest.
///
/// # Errors
///
/// The reason why the text is not such a duration.
pub(crate) fn parse_calendar(text: &str) -> Result<(u32, Duration), &'static str> {
    read(text, true)
}

/// Checks a number of months and a length beside it against the limit of 100 years.
pub(crate) fn is_too_long(months: u32, length: Duration) -> bool {
    u128::from(MEAN_MONTH) * u128::from(months) + length.as_micros() > LONGEST.as_micros()
}

fn read(text: &str, has_calendar: bool) -> Result<(u32, Duration), &'static str> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let mut rest = unsigned.strip_prefix('P').ok_or(MALFORMED)?;
    if text.contains('-') {
        return Err("must not be negative");
    }
    if rest.is_empty() {
        return Err(MALFORMED);
    }
    let mut units = DATE_UNITS.iter();
    let mut in_time = false;
    let mut had_fraction = false;
    let (mut months, mut total): (u64, u64) = (0, 0);
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T')
            && !in_time
            && !time.is_empty()
        {
            in_time = true;
            units = TIME_UNITS.iter();
            rest = time;
        }
        let (number, unit, after) = split_part(rest).ok_or(MALFORMED)?;
        let is_calendar = unit == 'Y' || unit == 'M' && !in_time;
        if is_calendar && !has_calendar {
            return Err("years and months have no fixed length");
        }
        let (_, size) = units.find(|(name, _)| *name == unit).ok_or(MALFORMED)?;
        if had_fraction {
            return Err("only the last unit may have a fraction");
        }
        had_fraction = number.contains(['.', ',']);
        let length = match times(number, *size) {
            Err(MALFORMED) => return Err(MALFORMED),
            _ if is_calendar && had_fraction => return Err("years and months must be whole numbers"),
            length => length?,
        };
        if is_calendar {
            months += length / MEAN_MONTH;
        } else {
            total = total.checked_add(length).ok_or(TOO_LONG)?;
        }
        rest = after;
    }
    // A u64 of microseconds holds less than 300,000 years.
    let (months, length) = (u32::try_from(months).map_err(|_| TOO_LONG)?, Duration::from_micros(total));
    if months == 0 && length.is_zero() {
        Err(TOO_SHORT)
    } else if is_too_long(months, length) {
        Err(TOO_LONG)
    } else {
        Ok((months, length))
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
