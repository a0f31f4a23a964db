//! Lengths of time in ISO 8601, of weeks and shorter units, whose length is fixed.

use std::time::Duration;

/// The longest length: a hundred years.
const LONGEST: f64 = 36_525.0 * 86_400.0;

/// Reads a length such as `PT1S`, `PT0.5S` or `P1DT12H`. `None`: it is none, or has months or years.
pub(crate) fn read(text: &str) -> Option<Duration> {
    let (days, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((days, time)) => (days, Some(time).filter(|time| !time.is_empty())?),
        None => (text.strip_prefix('P')?, ""),
    };
    if days.is_empty() && time.is_empty() {
        return None;
    }
    let seconds =
        units(days, &[('W', 604_800.0), ('D', 86_400.0)])? + units(time, &[('H', 3_600.0), ('M', 60.0), ('S', 1.0)])?;
    Duration::try_from_secs_f64(seconds).ok().filter(|_| seconds <= LONGEST)
}

/// The sum of numbers with units, which must come in this order.
fn units(mut text: &str, mut units: &[(char, f64)]) -> Option<f64> {
    let mut sum = 0.0;
    while !text.is_empty() {
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, rest) = text.split_at(end);
        let unit = rest.chars().next()?;
        let place = units.iter().position(|(name, _)| *name == unit)?;
        if number.is_empty() || number.starts_with('.') || number.ends_with('.') {
            return None;
        }
        sum += number.parse::<f64>().ok()? * units[place].1;
        units = &units[place + 1..];
        text = &rest[1..];
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_in_their_order_and_nothing_else_is() {
        let millis = |text| read(text).map(|length| length.as_millis());
        assert_eq!(millis("PT1S"), Some(1_000));
        assert_eq!(millis("PT0.5S"), Some(500));
        assert_eq!(millis("P1DT1H1M1S"), Some(90_061_000));
        assert_eq!(millis("P2W"), Some(1_209_600_000));
        for wrong in ["", "P", "PT", "1S", "PT1", "P1Y", "P1M", "PT1S1M", "PT.S", "PT1.S", "PT-1S", "PT1e9S", "PTé"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(read("PT99999999999999S"), None);
    }
}
