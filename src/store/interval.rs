//! Durations as PostgreSQL intervals.

use std::time::Duration;

use sqlx::postgres::types::PgInterval;

/// For ever, where null means something else: a thousand years.
pub(crate) const FOR_EVER: PgInterval = PgInterval { months: 12_000, days: 0, microseconds: 0 };

/// A duration as an interval of microseconds; longer than PostgreSQL can add becomes 1,000 years,
/// which ends within the years that RFC 3339 can write.
pub(crate) fn interval(duration: Duration) -> PgInterval {
    const THOUSAND_YEARS: i64 = 1_000 * 365 * 86_400 * 1_000_000;
    let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    PgInterval { months: 0, days: 0, microseconds: microseconds.min(THOUSAND_YEARS) }
}

/// A wait as `lock_timeout` takes it.
pub(super) fn lock_timeout(patience: Duration) -> String {
    // 0 would mean for ever.
    format!("{}ms", patience.as_millis().max(1))
}

/// Milliseconds as the database tells them; those that have passed are none.
pub(crate) fn milliseconds(count: i64) -> Duration {
    Duration::from_millis(u64::try_from(count).unwrap_or(0))
}
