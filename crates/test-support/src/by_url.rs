//! Databases by their URL, for tests that run commands. They stay until the end of the run.

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::eventually;
use crate::server::url_of;
use crate::template::{create, create_migrated};

/// A new database without a schema.
pub async fn database() -> String {
    url_of(&create("").await).await
}

/// A new database with a migrated schema of this name.
pub async fn migrated(schema: &str) -> String {
    url_of(&create_migrated(schema).await).await
}

pub async fn execute(url: &str, sql: &str) {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.expect(sql);
    connection.close().await.expect("a close");
}

/// The first column of each row of a query, as text.
pub async fn texts(url: &str, sql: &str) -> Vec<String> {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    let rows = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_all(&mut connection).await.expect(sql);
    connection.close().await.expect("a close");
    rows.iter().map(|row| row.get::<Option<String>, _>(0).unwrap_or_default()).collect()
}

/// The number that a query answers.
pub async fn number(url: &str, sql: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    let number = sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await.expect(sql);
    connection.close().await.expect("a close");
    number
}

/// Waits until a query returns this count.
pub async fn until(url: &str, sql: &str, wanted: i64) {
    eventually!(let found = number(url, sql).await; found == wanted, "{found}, not {wanted}: {sql}");
}
