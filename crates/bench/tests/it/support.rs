//! Running the bench, and the server that the tests share.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use uniqueue::embedded::Postgres;

static SERVER: OnceCell<Postgres> = OnceCell::const_new();
static NEXT_DATABASE: AtomicU32 = AtomicU32::new(1);

/// A database of the test's own, on one server for the whole run.
pub(crate) async fn database() -> String {
    // Benches open a good number of connections each, and tests run beside each other.
    let server =
        SERVER.get_or_init(async || Postgres::builder().max_connections(400).start().await.expect("a server")).await;
    let name = format!("test_{}", NEXT_DATABASE.fetch_add(1, Ordering::Relaxed));
    execute(server.url(), &format!("CREATE DATABASE {name}")).await;
    server.url().replace("/postgres?", &format!("/{name}?"))
}

pub(crate) async fn execute(url: &str, sql: &str) {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.expect(sql);
    connection.close().await.expect("a close");
}

/// The first column of each row of a query, as text.
pub(crate) async fn texts(url: &str, sql: &str) -> Vec<String> {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    let rows = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_all(&mut connection).await.expect(sql);
    connection.close().await.expect("a close");
    rows.iter().map(|row| row.get::<Option<String>, _>(0).unwrap_or_default()).collect()
}

/// A directory that every user can enter.
pub(crate) fn directory() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("its mode");
    directory
}

pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uniqueue-bench"));
    command.env_remove("DATABASE_URL").env_remove("RUST_LOG").stdin(Stdio::null());
    command
}
