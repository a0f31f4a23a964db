//! Outages of the server: a failover to a standby, a full disk, and a damaged file.

mod disk;
mod standby;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sqlx::AssertSqlSafe;
use uniqueue::embedded::Postgres;

use support::prelude::*;

/// Generous: a loaded machine takes its time.
const LONG: Duration = Duration::from_secs(90);

/// A directory that the server's user can write to, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/tmp/uq-outage-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The user and group that the server runs as.
fn user_of(server: &Postgres) -> (u32, u32) {
    let directory = fs::metadata(server.data_dir()).unwrap();
    (directory.uid(), directory.gid())
}

fn is_root() -> bool {
    fs::metadata(Path::new("/proc/self")).is_ok_and(|process| process.uid() == 0)
}

async fn execute(url: &str, sql: &str) {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    for statement in sql.split(';') {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut connection).await.expect(statement);
    }
    connection.close().await.expect("a close");
}

async fn number(url: &str, sql: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    let number = sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await.expect(sql);
    connection.close().await.expect("a close");
    number
}

async fn until(url: &str, sql: &str, wanted: i64) {
    eventually!(let found = number(url, sql).await; found == wanted, "{found}, not {wanted}: {sql}");
}
