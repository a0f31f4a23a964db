//! Numbers that a key cannot hold.
//!
//! A key holds the integers of 64 bits with all their digits, and every other number as a double. A number of more than
//! 17 digits would lose some of them, and one that a double rounds to 0 or to infinity would lose its value. Two such
//! numbers could make one key, so each is an error in a key.

use std::borrow::Cow;

use super::flaw::Flaw;

/// The most digits of which a double keeps every one apart from its neighbours.
const MAX_DIGITS: usize = 17;

/// The most digits of PostgreSQL's `numeric` before its point, and after it.
const MAX_WHOLE_DIGITS: i64 = 131_072;
const MAX_FRACTION_DIGITS: i64 = 16_383;

/// From here on PostgreSQL refuses an exponent, whatever stands before it.
const TOO_LARGE_EXPONENT: u64 = (i32::MAX / 2) as u64;

/// Stands before the text of such a number, where it waits in a [`Value`](serde_json::Value) as a string. No text that
/// `jsonb` holds begins with NUL.
const MARK: &str = "\0number ";

/// The string that stands for a number which no key can hold.
pub(crate) fn marked(number: &str) -> String {
    format!("{MARK}{number}")
}

/// Fails if the string stands for a number which no key can hold.
pub(crate) fn check_text(text: &str) -> Result<(), Flaw> {
    text.strip_prefix(MARK).map_or(Ok(()), |number| Err(unfit(number)))
}

/// Fails if a double cannot hold the number, which is written as in JSON.
pub(crate) fn check_double(number: &str) -> Result<(), Flaw> {
    match Decimal::read(number) {
        Some(decimal) if !decimal.fits_a_double(number) => Err(unfit(number)),
        _ => Ok(()),
    }
}

/// Whether no key can hold the number. Text that is no JSON number is not looked at.
pub(crate) fn is_unfit(number: &str) -> bool {
    // Nearly all are shorter, and have no exponent.
    if number.len() <= MAX_DIGITS && !number.contains(['e', 'E']) {
        return false;
    }
    let Some(decimal) = Decimal::read(number) else { return false };
    if decimal.fits_a_double(number) {
        return false;
    }
    let is_exact = match exact_integer(number) {
        Some(_) => true,
        None => number.parse::<u64>().is_ok() || number.parse::<i64>().is_ok(),
    };
    !is_exact
}

/// The flaw of a number that no key can hold.
pub(crate) fn unfit(number: &str) -> Flaw {
    let text = Decimal::read(number).map_or(Cow::Borrowed(number), |decimal| Cow::Owned(decimal.text()));
    Flaw::new("a double cannot hold the number, make it a string", &text)
}

/// The digits of a number that is written with an exponent and is an integer of 16 to 20 digits.
///
/// Shorter ones a double holds exactly, and longer ones are beyond 64 bits. A number with digits
/// left behind its point is a double even when they are zeros, as in `9007199254740993.0`:
/// `jsonb` keeps the zero, and every other JSON reader takes the number for a double.
pub(crate) fn exact_integer(number: &str) -> Option<String> {
    if !number.contains(['e', 'E']) {
        return None;
    }
    let Written { sign, whole, fraction, exponent } = Written::read(number)?;
    let zeros = usize::try_from(exponent).ok()?.checked_sub(fraction.len())?;
    let digits = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() || !(16..=20).contains(&digits.len().checked_add(zeros)?) {
        return None;
    }
    let integer = format!("{sign}{digits}{}", "0".repeat(zeros));
    let fits = integer.parse::<u64>().is_ok() || integer.parse::<i64>().is_ok();
    fits.then_some(integer)
}

/// Whether a number has more digits than PostgreSQL's `numeric`, written out without its exponent.
pub(crate) fn is_beyond_numeric(number: &str) -> bool {
    let Some(Written { whole, fraction, exponent, .. }) = Written::read(number) else { return false };
    let length = |text: &str| text.len() as i64;
    let whole_digits = match whole.bytes().chain(fraction.bytes()).position(|digit| digit != b'0') {
        Some(zeros) => length(whole) - zeros as i64 + exponent,
        None => 0,
    };
    exponent.unsigned_abs() >= TOO_LARGE_EXPONENT
        || whole_digits > MAX_WHOLE_DIGITS
        || length(fraction) - exponent > MAX_FRACTION_DIGITS
}

/// The parts of a JSON number.
struct Written<'a> {
    sign: &'a str,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> Written<'a> {
    fn read(number: &'a str) -> Option<Self> {
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let (sign, mantissa) = match mantissa.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", mantissa),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_well_formed =
            is_digits(whole) && is_digits(fraction) && (whole == "0" || (!whole.is_empty() && !whole.starts_with('0')));
        let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if !is_well_formed || exponent_digits.is_empty() || !is_digits(exponent_digits) {
            return None;
        }
        // Beyond an i64 only the direction counts.
        let furthest = if exponent.starts_with('-') { i64::MIN / 4 } else { i64::MAX / 4 };
        Some(Self {
            sign,
            whole,
            fraction,
            exponent: exponent.parse().unwrap_or(furthest).clamp(i64::MIN / 4, i64::MAX / 4),
        })
    }
}

/// The digits of a number without zeros at either end, and where the point stands among them.
struct Decimal<'a> {
    sign: &'a str,
    digits: String,
    point: i64,
}

impl<'a> Decimal<'a> {
    fn read(number: &'a str) -> Option<Self> {
        let Written { sign, whole, fraction, exponent } = Written::read(number)?;
        let all = [whole, fraction].concat();
        let digits = all.trim_start_matches('0');
        let leading = all.len() - digits.len();
        // A payload has no more than i64::MAX digits.
        let point = exponent + whole.len() as i64 - leading as i64;
        Some(Self { sign, digits: digits.trim_end_matches('0').to_owned(), point })
    }

    fn fits_a_double(&self, number: &str) -> bool {
        self.digits.is_empty()
            || (self.digits.len() <= MAX_DIGITS
                && number.parse::<f64>().is_ok_and(|double| double.is_finite() && double != 0.0))
    }

    /// As the function `_number_text` writes it in SQL: plain from 1e-7 to below 1e40, otherwise with an exponent.
    fn text(&self) -> String {
        let Self { sign, digits, point } = self;
        let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
        match usize::try_from(*point) {
            Ok(whole @ 1..=40) if whole < digits.len() => format!("{sign}{}.{}", &digits[..whole], &digits[whole..]),
            Ok(1..=40) => format!("{sign}{digits}{}", zeros(point - digits.len() as i64)),
            _ if (-6..=0).contains(point) => format!("{sign}0.{}{digits}", zeros(-point)),
            _ => {
                let (first, rest) = digits.split_at(1);
                let dot = if rest.is_empty() { "" } else { "." };
                format!("{sign}{first}{dot}{rest}e{:+}", point - 1)
            }
        }
    }
}
