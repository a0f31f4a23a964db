//! Lengths of time and points in time as text.
//!
//! jiff's printer writes every unit of a length, so the rounding to two units stays here.

use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Writes a length of time in its two largest units, such as `2h 5m`.
pub(crate) fn format_duration(length: Duration) -> String {
    let (seconds, micros) = (length.as_secs(), length.as_micros());
    let two = |large: u64, unit: char, small: u64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit} {small}{small_unit}"),
    };
    match seconds {
        0 if micros == 0 => "0s".to_owned(),
        0 if micros < 10_000 => format!("{:.1}ms", length.as_secs_f64() * 1_000.0),
        0 => format!("{}ms", length.as_millis()),
        1..10 => format!("{:.1}s", length.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, 'm', seconds % 60, 's'),
        3_600..86_400 => two(seconds / 3_600, 'h', seconds % 3_600 / 60, 'm'),
        _ => two(seconds / 86_400, 'd', seconds % 86_400 / 3_600, 'h'),
    }
}

/// Writes how far a time is from now, by the database's clock: `5m 12s ago`, `in 2h`.
pub(crate) fn format_relative(at: OffsetDateTime, now: OffsetDateTime) -> String {
    match (now - at).try_into() {
        Ok(passed) => format!("{} ago", format_duration(passed)),
        Err(_) => format!("in {}", format_duration((at - now).unsigned_abs())),
    }
}

/// Writes a time as RFC 3339 in UTC, to the second, so that it can be pasted as an argument.
pub(crate) fn format_time(at: OffsetDateTime) -> String {
    let to_the_second = at.to_offset(time::UtcOffset::UTC).replace_nanosecond(0).unwrap_or(at);
    to_the_second.format(&Rfc3339).unwrap_or_else(|_| to_the_second.to_string())
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::time_argument::TimeArgument;

    #[test]
    fn lengths_have_their_two_largest_units() {
        let text = |milliseconds| format_duration(Duration::from_millis(milliseconds));
        assert_eq!([0, 4, 320, 4_250, 42_000].map(text), ["0s", "4.0ms", "320ms", "4.2s", "42s"]);
        assert_eq!([60_000, 312_000, 7_500_000, 90_000_000].map(text), ["1m", "5m 12s", "2h 5m", "1d 1h"]);
        assert_eq!(format_duration(Duration::from_micros(730)), "0.7ms");
    }

    #[test]
    fn times_can_be_pasted_as_arguments() {
        let at = datetime!(2026-11-21 22:30:05.123456 UTC);
        assert_eq!(format_time(at), "2026-11-21T22:30:05Z");
        assert_eq!(format_time(at).parse(), Ok(TimeArgument::At(at.replace_nanosecond(0).unwrap())));
        assert_eq!(format_relative(at, at + time::Duration::seconds(312)), "5m 12s ago");
        assert_eq!(format_relative(at, at - time::Duration::hours(2)), "in 2h");
    }
}
