//! Lengths of time in policies, and the [windows](Window) that divide time.
//!
//! A length is an ISO 8601 duration of weeks, days, hours, minutes and seconds: `PT15M`, `P7D`,
//! `P1DT12H`, `PT0.5S`. A day is 24 hours and a week 7 days in every time zone. Years and months
//! have no fixed length. Only the [`Length`] of a claim may have them, as `P1M` and `P1Y`.

use std::time::Duration;

use crate::error::{Error, Result};

mod iso8601;
mod length;
pub(crate) mod seconds;
mod short;
mod window;

pub use length::Length;
pub use short::format_duration;
pub use window::{Window, check_window, window};

/// The longest length of time: 100 years of 365.25 days.
pub const LONGEST: Duration = iso8601::LONGEST;

/// Reads an ISO 8601 duration.
///
/// Units come in order (`W D T H M S`), each at most once. The last one may have a fraction after a
/// point or a comma. Limits: more than nothing, at most [`LONGEST`], whole microseconds.
///
/// # Errors
///
/// [`Error::InvalidPeriod`].
pub fn parse(text: &str) -> Result<Duration> {
    iso8601::parse(text).map_err(|problem| refused(problem, text))
}

/// Writes a length of time as an ISO 8601 duration without empty parts: `P7D`, `PT1H30M`,
/// `PT0.25S`. [`parse`] reads it back as the same length.
#[must_use]
pub fn write(length: Duration) -> String {
    let (days, seconds) = (length.as_secs() / 86_400, length.as_secs() % 86_400);
    let whole = |number: u64, unit: char| if number == 0 { String::new() } else { format!("{number}{unit}") };
    let second = match (seconds % 60, length.subsec_nanos()) {
        (second, 0) => whole(second, 'S'),
        (second, nanos) => format!("{second}.{}S", format!("{nanos:09}").trim_end_matches('0')),
    };
    let time = format!("{}{}{second}", whole(seconds / 3_600, 'H'), whole(seconds % 3_600 / 60, 'M'));
    match (whole(days, 'D'), time) {
        (days, time) if days.is_empty() && time.is_empty() => "PT0S".to_owned(),
        (days, time) if time.is_empty() => format!("P{days}"),
        (days, time) => format!("P{days}T{time}"),
    }
}

/// Checks a length of time against the limits of [`parse`].
///
/// # Errors
///
/// [`Error::InvalidPeriod`].
pub fn check(length: Duration) -> Result<()> {
    let problem = if length.is_zero() {
        iso8601::TOO_SHORT
    } else if length > LONGEST {
        iso8601::TOO_LONG
    } else if !length.subsec_nanos().is_multiple_of(1_000) {
        iso8601::TOO_FINE
    } else {
        return Ok(());
    };
    Err(refused(problem, &write(length)))
}

fn refused(problem: &'static str, given: &str) -> Error {
    Error::InvalidPeriod { problem, given: given.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::iso8601::{TOO_FINE, TOO_LONG, TOO_SHORT};
    use super::*;

    const MALFORMED: &str = "is not an ISO 8601 duration";

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
            ("P1DT2H3M4.5S", Duration::from_millis(93_784_500)),
            ("PT0H5M", Duration::from_secs(300)),
            ("PT00600S", Duration::from_secs(600)),
            ("P36525D", LONGEST),
        ] {
            assert_eq!(parse(text).unwrap(), length, "{text}");
        }
    }

    #[test]
    fn an_unusable_duration_is_refused_with_its_reason() {
        for (text, problem) in [
            ("", MALFORMED),
            ("P", MALFORMED),
            ("PT", MALFORMED),
            ("P1DT", MALFORMED),
            ("1D", MALFORMED),
            ("PX", MALFORMED),
            ("p1d", MALFORMED),
            ("P1", MALFORMED),
            ("PT1", MALFORMED),
            ("P1D1W", MALFORMED),
            ("PT1.5.5S", MALFORMED),
            ("PT1é", MALFORMED),
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
            (Duration::from_nanos(1), "PT0.000000001S"),
            (Duration::MAX, "P213503982334601DT7H15.999999999S"),
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
