//! Lengths of time, which may hold calendar months.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "time")]
use time::{Date, Month, OffsetDateTime, UtcOffset};

use crate::word::Problem;

/// The longest length of time: 100 years of 365.25 days.
pub const LONGEST: Duration = Duration::from_secs(36_525 * 86_400);

/// The mean length of a month in seconds. Only the limit of 100 years uses it.
const MEAN_MONTH: u64 = 2_629_800;

pub(crate) const TOO_LONG: &str = "must not be longer than 100 years";
pub(crate) const TOO_SHORT: &str = "must be longer than nothing";
pub(crate) const TOO_FINE: &str = "must be whole microseconds";
const NO_WINDOW: &str = "must be whole seconds";

/// The length of a claim: calendar months, which are added in UTC, and then an exact time.
///
/// A month later is the same day of the next month, or that month's last day if it has no such day: 31 January and
/// `P1M` make 28 February. [`Duration`]s convert into it.
///
/// Text is read in the short form, such as `90s`, `1h30m` or `7d` (units `w`, `d`, `h`, `m`, `s`, `ms`, `us`), or in ISO
/// 8601, such as `PT15M` or `P1M` (units `Y M W D`, then `T` and `H M S`). Units come in this order, each at most once, and
/// the last one may have a fraction, as in `1.5h`; years and months are whole. A day is 24 hours and a week 7 days in every
/// time zone. Limits: more than nothing, at most [`LONGEST`], whole microseconds, a text of at most 64 bytes.
///
/// ```
/// use std::time::Duration;
/// use uniqueue_policy::Length;
///
/// let length: Length = "P1Y2M3DT4H".parse()?;
/// assert_eq!(length, Length::months(14).plus(Duration::from_secs(76 * 3_600)));
/// assert_eq!("1h30m".parse::<Length>()?.to_string(), "PT1H30M");
/// # Ok::<(), uniqueue_policy::Problem>(())
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

    /// The shortest time that it can be: a month has 28 days at least.
    pub(crate) fn shortest(self) -> Duration {
        self.time.saturating_add(Duration::from_secs(28 * 86_400 * u64::from(self.months)))
    }

    /// Checks the length against the limits: more than nothing, at most 100 years, whole microseconds.
    ///
    /// # Errors
    ///
    /// [`Problem`], with the length in ISO 8601.
    pub fn check(self) -> Result<(), Problem> {
        let mean = self.time.saturating_add(Duration::from_secs(MEAN_MONTH * u64::from(self.months)));
        if mean > LONGEST {
            Err(self.refused(TOO_LONG))
        } else if !self.time.subsec_nanos().is_multiple_of(1_000) {
            Err(self.refused(TOO_FINE))
        } else if mean.is_zero() {
            Err(self.refused(TOO_SHORT))
        } else {
            Ok(())
        }
    }

    /// The instant that is this much later, as the database computes it; `None` beyond the year 9999.
    #[cfg(feature = "time")]
    #[must_use]
    pub fn after(self, instant: OffsetDateTime) -> Option<OffsetDateTime> {
        let (months, time) = self.parts();
        let instant = instant.checked_to_offset(UtcOffset::UTC)?;
        // Counted from January of the year 0.
        let months = i64::from(instant.year()) * 12 + i64::from(u8::from(instant.month())) - 1 + i64::from(months);
        let year = i32::try_from(months.div_euclid(12)).ok()?;
        let month = Month::try_from(u8::try_from(months.rem_euclid(12)).ok()? + 1).ok()?;
        let day = instant.day().min(month.length(year));
        let date = Date::from_calendar_date(year, month, day).ok()?;
        instant.replace_date(date).checked_add(time.try_into().ok()?)
    }

    fn refused(self, reason: &str) -> Problem {
        Problem::of_length(reason, &self.to_string())
    }
}

/// Checks the length of a window: whole seconds within the limits of [`Length::check`].
///
/// # Errors
///
/// [`Problem`].
pub fn check_window(length: Duration) -> Result<(), Problem> {
    let length = Length::from(length);
    length.check()?;
    if length.time.subsec_nanos() == 0 { Ok(()) } else { Err(length.refused(NO_WINDOW)) }
}

impl From<Duration> for Length {
    fn from(time: Duration) -> Self {
        Self { months: 0, time }
    }
}

/// In ISO 8601 without empty parts: `P7D`, `PT1H30M`, `PT0.25S`; `PT0S` for nothing.
impl fmt::Display for Length {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { months, time } = *self;
        let (seconds, nanos) = (time.as_secs(), time.subsec_nanos());
        let part = |count: u64, unit: char| if count == 0 { String::new() } else { format!("{count}{unit}") };
        let date =
            [part((months / 12).into(), 'Y'), part((months % 12).into(), 'M'), part(seconds / 86_400, 'D')].concat();
        let second = match nanos {
            0 => part(seconds % 60, 'S'),
            _ => format!("{}.{}S", seconds % 60, format!("{nanos:09}").trim_end_matches('0')),
        };
        let time = [part(seconds / 3_600 % 24, 'H'), part(seconds / 60 % 60, 'M'), second].concat();
        formatter.pad(&match (&*date, &*time) {
            ("", "") => "PT0S".to_owned(),
            (date, "") => format!("P{date}"),
            (date, time) => format!("P{date}T{time}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn what_is_beyond_the_calendar_in_utc_has_no_time_after() {
        let last = datetime!(9999-12-31 23:59:59 -23:59);
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
}
