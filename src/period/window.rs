//! Windows: periods of equal length, counted from one origin.

use std::time::Duration;

use time::OffsetDateTime;
use uniqueue_policy::check_window;

use crate::error::{Error, Result};

/// The instant from which windows are counted, Monday 0001-01-01 00:00 UTC, in Unix seconds.
/// River counts from it too: it is Go's zero time.
const WINDOW_ORIGIN: i64 = -62_135_596_800;

/// Returns the window of a length that contains an instant.
///
/// Windows start at multiples of the length from Monday 0001-01-01 00:00 UTC, so weeks start on
/// Mondays, and days and hours start with those of UTC. An instant at a boundary belongs to the window
/// that starts there. The offset of the instant makes no difference.
///
/// # Errors
///
/// [`Error::InvalidPeriod`] when the length is not whole seconds or outside the limits of
/// [`parse`](crate::period::parse); [`Error::InvalidPolicy`] when the instant is before the year 1.
pub(crate) fn window(instant: OffsetDateTime, length: Duration) -> Result<Window> {
    check_window(length)?;
    let elapsed = instant.unix_timestamp() - WINDOW_ORIGIN;
    // The check above limits the length to 100 years.
    let into_window = elapsed.rem_euclid(length.as_secs() as i64);
    let start = match OffsetDateTime::from_unix_timestamp(instant.unix_timestamp() - into_window) {
        Ok(start) if elapsed >= 0 => start,
        _ => {
            return Err(Error::InvalidPolicy {
                field: "window",
                problem: format!("has no windows before the year 1: {instant}"),
            });
        }
    };
    Ok(Window { start, length })
}

/// A period of time that is part of a key. Jobs of the same window share the key.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Window {
    start: OffsetDateTime,
    length: Duration,
}

impl Window {
    /// Returns the start of the window, in UTC.
    #[cfg(test)]
    const fn start(&self) -> OffsetDateTime {
        self.start
    }

    /// Returns the end of the window, where the next one starts. `None` at the end of the calendar.
    #[cfg(any(test, feature = "periodic"))]
    pub(crate) fn end(&self) -> Option<OffsetDateTime> {
        self.start.checked_add(self.length.try_into().ok()?)
    }

    /// Returns the text of the window in the fingerprint: start, slash, length in whole seconds, such as
    /// `2026-02-12T15:15:00Z/PT900S`. This text is part of every key with a window, so it must never
    /// change, and no library's formatting is used for it.
    pub(crate) fn fingerprint(&self) -> String {
        let date = self.start.date();
        let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
        let (hour, minute, second) = self.start.to_hms();
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z/PT{}S", self.length.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::datetime;

    use super::*;

    #[test]
    fn windows_are_counted_from_a_monday() {
        let week = Duration::from_secs(604_800);
        for (instant, start) in [
            (datetime!(2026-02-15 23:59:59 UTC), "2026-02-09T00:00:00Z/PT604800S"),
            (datetime!(2026-02-16 00:00:00 UTC), "2026-02-16T00:00:00Z/PT604800S"),
            (datetime!(0001-01-01 00:00:00 UTC), "0001-01-01T00:00:00Z/PT604800S"),
            (datetime!(1969-12-31 23:59:59.999 UTC), "1969-12-29T00:00:00Z/PT604800S"),
            (datetime!(9999-12-31 23:59:59 UTC), "9999-12-27T00:00:00Z/PT604800S"),
        ] {
            assert_eq!(window(instant, week).unwrap().fingerprint(), start);
        }
        assert!(window(datetime!(0000-12-31 23:59:59 UTC), week).is_err());
        let last = window(datetime!(9999-12-31 23:59:59 UTC), week).unwrap();
        assert_eq!((last.end(), last.length), (None, week));
    }

    #[test]
    fn a_window_does_not_depend_on_the_time_zone() {
        let day = Duration::from_secs(86_400);
        let at_utc = window(datetime!(2026-02-12 02:00 UTC), day).unwrap();
        let in_tokyo = window(datetime!(2026-02-12 11:00 +9), day).unwrap();
        assert_eq!(at_utc, in_tokyo);
        assert_eq!(at_utc.start(), datetime!(2026-02-12 00:00 UTC));
        assert_eq!(at_utc.end(), Some(datetime!(2026-02-13 00:00 UTC)));
    }

    #[test]
    fn windows_are_whole_seconds() {
        let now = datetime!(2026-02-12 15:21 UTC);
        for length in [Duration::ZERO, Duration::from_millis(1_500), Duration::MAX] {
            assert!(window(now, length).is_err(), "{length:?}");
        }
        assert_eq!(
            window(now, Duration::from_millis(1_500)).unwrap_err().problem(),
            "invalid period: must be whole seconds: \"PT1.5S\""
        );
    }

    proptest! {
        #[test]
        fn a_window_holds_its_instant(unix in WINDOW_ORIGIN..253_402_300_799, length in 1..1_000_000_000_u64) {
            let instant = OffsetDateTime::from_unix_timestamp(unix).unwrap();
            let window = window(instant, Duration::from_secs(length)).unwrap();
            prop_assert!(window.start() <= instant);
            prop_assert!(window.end().is_none_or(|end| instant < end));
            prop_assert_eq!((window.start().unix_timestamp() - WINDOW_ORIGIN) % length as i64, 0);
        }
    }
}
