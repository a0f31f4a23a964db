//! Durations as PostgreSQL intervals.

use std::time::Duration;

use sqlx::postgres::types::PgInterval;

/// A duration as an interval of microseconds; longer than PostgreSQL can add becomes 10,000 years.
pub(crate) fn interval(duration: Duration) -> PgInterval {
    const TEN_THOUSAND_YEARS: i64 = 10_000 * 365 * 86_400 * 1_000_000;
    let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    PgInterval { months: 0, days: 0, microseconds: microseconds.min(TEN_THOUSAND_YEARS) }
}
