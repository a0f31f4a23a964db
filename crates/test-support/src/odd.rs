//! A database as odd as users have them: an ICU locale, `serializable` by default, and a clock that jumps.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sqlx::{Connection, PgConnection, raw_sql};
use uniqueue::embedded::Postgres;

use crate::dice::Dice;
use crate::tools::lacks;

/// Where Debian's faketime keeps its library.
const FAKETIME: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1"];

/// The offsets between which the clock jumps, in seconds.
const OFFSETS: [i64; 3] = [-3_600, 0, 3_600];

/// The database, in a cluster of its own.
pub const DATABASE: &str = "odd";

/// A clock of the server that can be set.
pub struct Clock {
    offset: PathBuf,
    /// A `postgres` that reads the offset, and an `initdb`.
    pub binaries: PathBuf,
}

impl Clock {
    /// Makes one below this directory; `None` where the machine has no faketime, and then it says so.
    pub async fn new(directory: &Path) -> Option<Self> {
        let Some(library) = FAKETIME.iter().find(|library| Path::new(library).exists()) else {
            lacks("faketime", "apt-get install faketime");
            return None;
        };
        let real = binaries().await;
        let binaries = directory.join("binaries");
        fs::create_dir_all(&binaries).expect("a directory");
        let clock = Self { offset: directory.join("offset"), binaries };
        clock.set(0);
        let offset = clock.offset.display();
        // Timeouts of the server keep the true time.
        let faked = format!(
            "export LD_PRELOAD={library} FAKETIME_TIMESTAMP_FILE={offset} FAKETIME_CACHE_DURATION=1 FAKETIME_DONT_FAKE_MONOTONIC=1\n"
        );
        for (name, before) in [("postgres", faked.as_str()), ("initdb", "")] {
            let path = clock.binaries.join(name);
            let text = format!("#!/bin/sh\n{before}exec {}/{name} \"$@\"\n", real.display());
            fs::write(&path, text).expect("a script");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("an executable");
        }
        Some(clock)
    }

    /// Jumps by up to two hours, either way.
    pub fn jump(&self, dice: &mut Dice) {
        self.set(OFFSETS[dice.below(OFFSETS.len() as u64) as usize]);
    }

    /// Jumps behind every time that was reached, so that all that waits for a time is due.
    pub fn jump_ahead_of_all(&self) {
        self.set(OFFSETS[OFFSETS.len() - 1] + 3_600);
    }

    fn set(&self, seconds: i64) {
        // By a new file, so that the server reads no half of one.
        let new = self.offset.with_extension("new");
        fs::write(&new, format!("{seconds:+}\n")).expect("a file");
        fs::rename(&new, &self.offset).expect("a file");
    }
}

/// Creates the odd database.
pub async fn create(url: &str) {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    let version: i32 = sqlx::query_scalar("SELECT current_setting('server_version_num')::integer")
        .fetch_one(&mut connection)
        .await
        .expect("a version");
    // PostgreSQL 14 knows locales of the operating system alone.
    let locale = if version < 150_000 { "" } else { "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'" };
    let create = format!("CREATE DATABASE {DATABASE} TEMPLATE template0 {locale}");
    let odd = format!("ALTER DATABASE {DATABASE} SET default_transaction_isolation = 'serializable'");
    for statement in [create, odd] {
        raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.expect("a database");
    }
    connection.close().await.expect("an end");
}

/// The directory of the binaries that the tests use.
async fn binaries() -> PathBuf {
    let postgres = Postgres::builder().start().await.expect("a server");
    let binary = fs::read_link(format!("/proc/{}/exe", crate::process::postmaster(postgres.data_dir())));
    postgres.stop().await.expect("a stop");
    binary.expect("the server's binary").parent().expect("its directory").to_path_buf()
}
