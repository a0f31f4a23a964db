//! One statement and its values.

use std::pin::Pin;

use sqlx::postgres::{PgArguments, PgQueryResult, PgRow};
use sqlx::{Encode, Executor, PgConnection, Postgres, SqlStr, Type};

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
