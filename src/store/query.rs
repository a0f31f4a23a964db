//! One statement and its values, and lengths of time as PostgreSQL's intervals.

use std::pin::Pin;
use std::time::Duration;

use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{PgArguments, PgQueryResult, PgRow};
use sqlx::{Encode, Executor, PgConnection, Postgres, SqlStr, Type};

use crate::period::Length;

type Sent<'c, T> = Pin<Box<dyn Future<Output = sqlx::Result<T>> + Send + 'c>>;

/// A statement with the values of its parameters. The functions of sqlx that send a query are generic, so each crate that awaits
/// them compiles them again. The functions of this type are plain and are compiled once.
pub(super) struct Query(sqlx::query::Query<'static, Postgres, PgArguments>);

pub(super) fn query(statement: &SqlStr) -> Query {
    Query(sqlx::query(statement.clone()))
}

impl Query {
    pub(super) fn bind<'v, T: Encode<'v, Postgres> + Type<Postgres>>(self, value: T) -> Self {
        Self(self.0.bind(value))
    }

    /// Whether the connection keeps the statement prepared. Default: true.
    pub(super) fn persistent(self, is_kept: bool) -> Self {
        Self(self.0.persistent(is_kept))
    }

    pub(super) fn execute(self, connection: &mut PgConnection) -> Sent<'_, PgQueryResult> {
        connection.execute(self.0)
    }

    pub(super) fn fetch_one(self, connection: &mut PgConnection) -> Sent<'_, PgRow> {
        connection.fetch_one(self.0)
    }

    pub(super) fn fetch_optional(self, connection: &mut PgConnection) -> Sent<'_, Option<PgRow>> {
        connection.fetch_optional(self.0)
    }

    pub(super) fn fetch_all(self, connection: &mut PgConnection) -> Sent<'_, Vec<PgRow>> {
        connection.fetch_all(self.0)
    }
}

/// The interval that means "for ever" where null has another meaning: a thousand years.
pub(crate) const FOR_EVER: PgInterval = PgInterval { months: 12_000, days: 0, microseconds: 0 };

/// A duration as an interval of microseconds. A duration that PostgreSQL cannot add to a time becomes 1,000 years, so
/// the end stays within the years of RFC 3339.
pub(crate) fn interval(duration: Duration) -> PgInterval {
    const THOUSAND_YEARS: i64 = 1_000 * 365 * 86_400 * 1_000_000;
    let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    PgInterval { months: 0, days: 0, microseconds: microseconds.min(THOUSAND_YEARS) }
}

/// The length of a claim as an interval. Days are part of the time, because PostgreSQL counts days by the time zone.
pub(super) fn claim_length(length: Length) -> PgInterval {
    let (months, time) = length.parts();
    PgInterval { months: i32::try_from(months).unwrap_or(i32::MAX), ..interval(time) }
}

/// A wait as a value of `lock_timeout`.
pub(super) fn lock_timeout(lock_wait: Duration) -> String {
    // 0 would mean no limit.
    format!("{}ms", lock_wait.as_millis().max(1))
}

/// Milliseconds from the database. A negative number is zero.
pub(crate) fn milliseconds(count: i64) -> Duration {
    Duration::from_millis(u64::try_from(count).unwrap_or(0))
}
