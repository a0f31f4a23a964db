//! Lengths of time that may hold calendar months.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use time::OffsetDateTime;

use super::iso8601;
use crate::error::{Error, Result};

/// The length of a claim: calendar months, which are added in UTC, and then an exact time.
///
/// A month later is the same day of the next month, or that month's last day if it has no such day: 31 January and
/// `P1M` make 28 February. [`Duration`]s convert into it, and text is read as an ISO 8601 duration.
///
/// ```
/// use std::time::Duration;
/// use uniqueue::period::Length;
///
/// let length: Length = "P1Y2M3DT4H".parse()?;
/// assert_eq!(length, Length::months(14).plus(Duration::from_secs(76 * 3_600)));
/// assert_eq!(Length::years(1).to_string(), "P1Y");
/// # Ok::<(), uniqueue::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Length {
    months: u32,
    time: Duration,
}

impl Length {
    /// A number of calendar months.
    #[must_use]
    pub const fn months(count: u32) -> Self {
        Self { months: count, time: Duration::ZERO }
    }

    /// A number of calendar years, each of twelve months.
    #[must_use]
    pub const fn years(count: u32) -> Self {
        Self::months(count.saturating_mul(12))
    }

    /// Adds an exact time, which counts after the months.
    #[must_use]
    pub const fn plus(self, time: Duration) -> Self {
        Self { months: self.months, time: self.time.saturating_add(time) }
    }

    /// The months, and the exact time after them.
    #[must_use]
    pub const fn parts(self) -> (u32, Duration) {
        (self.months, self.time)
    }

    /// The instant that is this much later, as the database computes it; `None` beyond the year 9999.
    #[must_use]
    pub fn after(self, instant: OffsetDateTime) -> Option<OffsetDateTime> {
        let instant = instant.checked_to_offset(time::UtcOffset::UTC)?;
        // Counted from January of the year 0.
        let months = i64::from(instant.year()) * 12 + i64::from(u8::from(instant.month())) - 1 + i64::from(self.months);
        let year = i32::try_from(months.div_euclid(12)).ok()?;
        let month = time::Month::try_from(u8::try_from(months.rem_euclid(12)).ok()? + 1).ok()?;
        let day = instant.day().min(month.length(year));
        let date = time::Date::from_calendar_date(year, month, day).ok()?;
        instant.replace_date(date).checked_add(self.time.try_into().ok()?)
    }

    /// Checks the length against the limits: more than nothing, at most 100 years, whole microseconds.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPeriod`].
    pub fn check(self) -> Result<()> {
        if self.months == 0 {
            super::check(self.time)
        } else if iso8601::is_too_long(self.months, self.time) {
            Err(super::refused(iso8601::TOO_LONG, &self.to_string()))
        } else if !self.time.subsec_nanos().is_multiple_of(1_000) {
            Err(super::refused(iso8601::TOO_FINE, &self.to_string()))
        } else {
            Ok(())
        }
    }
}

impl From<Duration> for Length {
    fn from(time: Duration) -> Self {
        Self { months: 0, time }
    }
}

/// Reads an ISO 8601 duration within the limits of [`check`](Length::check): units in order (`Y M W D`, then `T` and
/// `H M S`), each at most once, years and months whole.
impl FromStr for Length {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        let (months, time) = iso8601::parse_calendar(given).map_err(|problem| super::refused(problem, given))?;
        Ok(Self { months, time })
    }
}

impl fmt::Display for Length {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = super::write(self.time);
        if self.months == 0 {
            return formatter.write_str(&time);
        }
        formatter.write_str("P")?;
        for (count, unit) in [(self.months / 12, 'Y'), (self.months % 12, 'M')] {
            if count > 0 {
                write!(formatter, "{count}{unit}")?;
            }
        }
        formatter.write_str(if self.time.is_zero() { "" } else { time.trim_start_matches('P') })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::datetime;

    use super::*;

    #[test]
    fn calendar_lengths_read_and_are_written() {
        for (text, months, seconds) in [
            ("P1M", 1, 0),
            ("P1Y", 12, 0),
            ("P1Y2M", 14, 0),
            ("P1Y2M3DT4H", 14, 76 * 3_600),
            ("P1MT1M", 1, 60),
            ("P100Y", 1_200, 0),
            ("PT15M", 0, 900),
        ] {
            let length: Length = text.parse().unwrap();
            assert_eq!(length.parts(), (months, Duration::from_secs(seconds)), "{text}");
            assert_eq!(length.to_string(), text);
            length.check().unwrap();
        }
        assert_eq!("P14M".parse::<Length>().unwrap().to_string(), "P1Y2M");
    }

    #[test]
    fn calendar_lengths_outside_the_limits_are_refused_with_the_reason() {
        for (text, problem) in [
            ("P0M", iso8601::TOO_SHORT),
            ("P0Y0M", iso8601::TOO_SHORT),
            ("P100Y1M", iso8601::TOO_LONG),
            ("P100YT1S", iso8601::TOO_LONG),
            ("P99999999999999999999M", iso8601::TOO_LONG),
            ("P0.5Y", "years and months must be whole numbers"),
            ("P1,5M", "years and months must be whole numbers"),
            ("P1M1Y", "is not an ISO 8601 duration"),
            ("P1W1M", "is not an ISO 8601 duration"),
            ("PT1Y", "is not an ISO 8601 duration"),
            ("-P1M", "must not be negative"),
        ] {
            match text.parse::<Length>() {
                Err(Error::InvalidPeriod { problem: found, .. }) => assert_eq!(found, problem, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(Length::years(101).check().is_err());
        assert!(Length::years(u32::MAX).check().is_err());
        assert!(Length::months(1).plus(Duration::from_nanos(1)).check().is_err());
        assert!(Length::months(0).check().is_err());
    }

    #[test]
    fn what_is_beyond_the_calendar_in_utc_has_no_time_after() {
        let last = time::macros::datetime!(9999-12-31 23:59:59 -23:59);
        assert_eq!(Length::months(1).after(last), None);
        assert_eq!(Length::from(Duration::from_secs(1)).after(last), None);
    }

    #[test]
    fn months_are_added_in_utc_before_the_time() {
        let month = Length::months(1);
        for (from, length, to) in [
            (datetime!(2026-01-31 12:00 UTC), month, datetime!(2026-02-28 12:00 UTC)),
            (datetime!(2028-01-31 12:00 UTC), month, datetime!(2028-02-29 12:00 UTC)),
            (datetime!(2026-12-15 00:00 UTC), month, datetime!(2027-01-15 00:00 UTC)),
            (datetime!(2028-02-29 00:00 UTC), Length::years(1), datetime!(2029-02-28 00:00 UTC)),
            // The 1st of February in UTC, whatever the offset it is written in.
            (datetime!(2026-01-31 23:00 -1), month, datetime!(2026-03-01 00:00 UTC)),
            (datetime!(2026-01-31 00:00 UTC), month.plus(Duration::from_secs(86_400)), datetime!(2026-03-01 00:00 UTC)),
        ] {
            assert_eq!(length.after(from), Some(to), "{from} {length}");
        }
        assert_eq!(Length::years(100).after(datetime!(9950-01-01 00:00 UTC)), None);
    }

    proptest! {
        #[test]
        fn a_written_length_reads_back(months in 0..1_199_u32, microseconds in 1..2_000_000_000_000_u64) {
            let length = Length::months(months).plus(Duration::from_micros(microseconds));
            prop_assert_eq!(length.to_string().parse::<Length>().unwrap(), length);
        }
    }
}
