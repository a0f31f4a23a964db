//! Lengths of time and points in time on the command line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime};
use uniqueue::NewJob;

use crate::output::format_duration;

/// A length of time: `90s`, `1h30m`, `7d`, `500ms`, ISO 8601 such as `PT15M`, or `0`. A day is 24 hours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DurationArgument(pub(crate) Duration);

impl fmt::Display for DurationArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration(self.0).replace(' ', ""))
    }
}

impl FromStr for DurationArgument {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, &'static str> {
        let length = signed(given).and_then(|length| Duration::try_from(length).ok());
        length.map(Self).ok_or("expected a length of time such as 90s, 15m, 1h30m, 7d, 500ms, PT15M or 0")
    }
}

/// Lets a job expire this long after it is due, or never for zero.
pub(crate) fn expires_in_or_never(job: NewJob, DurationArgument(length): DurationArgument) -> NewJob {
    if length.is_zero() { job.never_expires() } else { job.expires_in(length) }
}

/// Reads a length of time. Zero needs no unit. Months and years have no fixed length, so `None`.
fn signed(given: &str) -> Option<SignedDuration> {
    if given.trim() == "0" {
        return Some(SignedDuration::ZERO);
    }
    let span: Span = given.trim().parse().ok()?;
    span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()
}

/// A point in time: RFC 3339, a date (midnight UTC), `now`, or a distance from the database's now. `2h` and `-2h` are two
/// hours ago, `+2h` is in two hours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TimeArgument {
    At(OffsetDateTime),
    Ago(Duration),
    In(Duration),
}

impl TimeArgument {
    /// The point in time. A time beyond the calendar becomes the calendar's first or last time.
    pub(crate) fn at(self, now: OffsetDateTime) -> OffsetDateTime {
        let limited = |length: Duration| time::Duration::try_from(length).unwrap_or(time::Duration::MAX);
        match self {
            Self::At(at) => at,
            Self::Ago(length) => now.saturating_sub(limited(length)),
            Self::In(length) => now.saturating_add(limited(length)),
        }
    }

    fn parse(given: &str) -> Option<Self> {
        let day = format_description!("[year]-[month]-[day]");
        if given == "now" {
            return Some(Self::Ago(Duration::ZERO));
        }
        if let Ok(at) = OffsetDateTime::parse(given, &Rfc3339) {
            return Some(Self::At(at));
        }
        if let Ok(date) = Date::parse(given, &day) {
            return Some(Self::At(date.midnight().assume_utc()));
        }
        let length = signed(given)?.unsigned_abs();
        Some(if given.starts_with('+') { Self::In(length) } else { Self::Ago(length) })
    }
}

impl FromStr for TimeArgument {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, &'static str> {
        Self::parse(given.trim()).ok_or(
            "expected a time such as 2026-11-21T22:30:00Z, 2026-11-21 or now, or how long ago, such as 2h; +2h is later",
        )
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn lengths_are_read_in_units_that_add_up() {
        let read = |text: &str| text.parse::<DurationArgument>().map(|DurationArgument(length)| length.as_millis());
        assert_eq!(read("90s"), Ok(90_000));
        assert_eq!(read("1h30m"), Ok(5_400_000));
        assert_eq!(read("1.5h"), Ok(5_400_000));
        assert_eq!(read("PT1H30M"), Ok(5_400_000));
        assert_eq!(read("1d 12h"), Ok(129_600_000));
        assert_eq!(read("15min"), Ok(900_000));
        assert_eq!(read("2w"), Ok(1_209_600_000));
        assert_eq!(read("500ms"), Ok(500));
        for zero in ["0", "0s", "PT0S"] {
            assert_eq!(read(zero), Ok(0), "{zero}");
        }
        for bad in ["", "5", "h", "2 parsecs", "-2h", "2h ago", "1mo", "1y", "99999999999999999999d", "2h;"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        for text in ["0s", "500ms", "90s", "1h30m", "7d"] {
            let length: DurationArgument = text.parse().unwrap();
            assert_eq!(length.to_string().parse(), Ok(length), "{text}");
        }
    }

    #[test]
    fn a_time_is_absolute_or_counted_from_now() {
        let now = datetime!(2026-11-21 12:00 UTC);
        let read = |text: &str| text.parse::<TimeArgument>().map(|time| time.at(now));
        assert_eq!(read("2026-11-21T14:30:00+02:00"), Ok(datetime!(2026-11-21 12:30 UTC)));
        assert_eq!(read("2026-11-20"), Ok(datetime!(2026-11-20 0:00 UTC)));
        assert_eq!(read("now"), Ok(now));
        assert_eq!(read("2h"), Ok(datetime!(2026-11-21 10:00 UTC)));
        assert_eq!(read("-2h"), read("2h"));
        assert_eq!(read("2h ago"), read("2h"));
        assert_eq!(read("+2h"), Ok(datetime!(2026-11-21 14:00 UTC)));
        // Before the year -9999, the first of the calendar.
        assert_eq!(read("1000000w"), Ok(time::PrimitiveDateTime::MIN.assume_utc()));
        for bad in ["", "yesterday", "2026-13-01", "12:00", "+", "--2h"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
