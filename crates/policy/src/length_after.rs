//! Instants that are a length later.

use time::{Date, Month, OffsetDateTime, UtcOffset};

use crate::length::Length;

impl Length {
    /// The instant that is this much later, as the database computes it; `None` beyond the year 9999.
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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
