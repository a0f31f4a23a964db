//! Reads lengths of time: short, such as `1h30m`, or in ISO 8601.
//!
//! jiff does not fit here. It refuses fractions of days and weeks and fractions of more than nine
//! digits, it reads lower case in ISO 8601, and its errors do not tell the reasons apart. The SQL function
//! `_policy_length` gives the same lengths and the same reasons as this file.

use std::str::FromStr;
use std::time::Duration;

use crate::length::{Length, TOO_FINE, TOO_LONG, check_window};
use crate::word::Problem;

const MALFORMED: &str = "is not a length of time";

/// The longest text, in bytes. No length needs more, and SQL computes with all digits.
const LONGEST_TEXT: usize = 64;

/// Each unit: its name, and its size in months or in microseconds. They stand in the order in which they are written.
type Units = &'static [(&'static str, Size)];

#[derive(Clone, Copy)]
enum Size {
    Months(u64),
    Micros(u64),
}

const SHORT: Units = &[
    ("w", Size::Micros(604_800_000_000)),
    ("d", Size::Micros(86_400_000_000)),
    ("h", Size::Micros(3_600_000_000)),
    ("m", Size::Micros(60_000_000)),
    ("s", Size::Micros(1_000_000)),
    ("ms", Size::Micros(1_000)),
    ("us", Size::Micros(1)),
];

const DATE: Units = &[
    ("Y", Size::Months(12)),
    ("M", Size::Months(1)),
    ("W", Size::Micros(604_800_000_000)),
    ("D", Size::Micros(86_400_000_000)),
];

const TIME: Units =
    &[("H", Size::Micros(3_600_000_000)), ("M", Size::Micros(60_000_000)), ("S", Size::Micros(1_000_000))];

/// A number of a unit, in decimal digits.
struct Part<'a> {
    whole: &'a str,
    /// Without the point, and without zeros at the end; `None` where there is no point.
    fraction: Option<&'a str>,
    size: Size,
}

impl FromStr for Length {
    type Err = Problem;

    fn from_str(given: &str) -> Result<Self, Problem> {
        let length = read(given).map_err(|reason| Problem::of_length(reason, given))?;
        length.check().map(|()| length).map_err(|problem| Problem::of_length(&problem.reason, given))
    }
}

/// Reads a length without years and months.
///
/// # Errors
///
/// [`Problem`].
pub fn exact(text: &str) -> Result<Duration, Problem> {
    match text.parse::<Length>()?.parts() {
        (0, time) => Ok(time),
        _ => Err(Problem::of_length("years and months have no fixed length", text)),
    }
}

/// Reads the length of a window: exact, and in whole seconds.
pub(crate) fn exact_window(text: &str) -> Result<Duration, Problem> {
    let length = exact(text)?;
    check_window(length).map(|()| length)
}

/// Reads a length. Whether it is within the limits, [`Length::check`] says.
fn read(text: &str) -> Result<Length, &'static str> {
    let parts = parts(text).ok_or(MALFORMED)?;
    let (_, but_last) = parts.split_last().ok_or(MALFORMED)?;
    if but_last.iter().any(|part| part.fraction.is_some()) {
        return Err("only the last unit may have a fraction");
    }
    let (mut months, mut micros, mut has_rest) = (0_u64, 0_u64, false);
    for Part { whole, fraction, size } in parts {
        // A number beyond 64 bits makes the length too long.
        let whole = whole.parse().unwrap_or(u64::MAX);
        match size {
            Size::Months(_) if fraction.is_some() => return Err("years and months must be whole numbers"),
            Size::Months(size) => months = months.saturating_add(whole.saturating_mul(size)),
            Size::Micros(size) => {
                let of_fraction;
                (of_fraction, has_rest) = micros_of(fraction.unwrap_or_default(), size);
                micros = micros.saturating_add(whole.saturating_mul(size)).saturating_add(of_fraction);
            }
        }
    }
    let length = Length::months(u32::try_from(months).map_err(|_| TOO_LONG)?).plus(Duration::from_micros(micros));
    if has_rest {
        // A part of a microsecond more than the limit is too long as well.
        let more = length.plus(Duration::from_nanos(1_000)).check();
        return Err(if more.is_err_and(|problem| problem.reason == TOO_LONG) { TOO_LONG } else { TOO_FINE });
    }
    Ok(length)
}

fn parts(text: &str) -> Option<Vec<Part<'_>>> {
    if text.len() > LONGEST_TEXT {
        return None;
    }
    let mut parts = Vec::new();
    match text.strip_prefix('P').map(|rest| rest.split_once('T').ok_or(rest)) {
        None => split(text, SHORT, &mut parts)?,
        Some(Err(date)) => split(date, DATE, &mut parts)?,
        Some(Ok((_, ""))) => return None,
        Some(Ok((date, time))) => {
            split(date, DATE, &mut parts)?;
            split(time, TIME, &mut parts)?;
        }
    }
    Some(parts)
}

/// Splits `1H30M` into its parts. `None`: it is no list of these units in their order.
fn split<'a>(mut text: &'a str, units: Units, parts: &mut Vec<Part<'a>>) -> Option<()> {
    let mut units = units.iter();
    while !text.is_empty() {
        let (number, rest) = text.split_at(text.find(|next: char| next.is_ascii_alphabetic())?);
        let (name, rest) = rest.split_at(rest.find(|next: char| !next.is_ascii_alphabetic()).unwrap_or(rest.len()));
        let (_, size) = units.find(|(unit, _)| *unit == name)?;
        let (whole, fraction) = match number.split_once(['.', ',']) {
            None => (number, None),
            Some((whole, fraction)) => (whole, Some(fraction)),
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !fraction.is_none_or(is_number) {
            return None;
        }
        parts.push(Part { whole, fraction: fraction.map(|fraction| fraction.trim_end_matches('0')), size: *size });
        text = rest;
    }
    Some(())
}

/// The whole microseconds of a decimal fraction of a unit, and whether that leaves a rest.
fn micros_of(fraction: &str, size: u64) -> (u64, bool) {
    // More than 13 digits are never whole microseconds, even of a week.
    let (first, rest) = fraction.split_at(fraction.len().min(19));
    let parts = u128::from(first.parse::<u64>().unwrap_or(0)) * u128::from(size);
    let scale = 10_u128.pow(first.len() as u32);
    // Less than `size`, so a u64 holds it.
    ((parts / scale) as u64, parts % scale != 0 || !rest.is_empty())
}

#[cfg(test)]
mod tests;
