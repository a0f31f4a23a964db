//! Options of a server.

use std::num::NonZeroU16;
use std::path::PathBuf;

/// Whether the data must survive a crash of the machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Durability {
    /// No: nothing is flushed to the disk, which is several times faster. The data survives a clean stop and a crash of
    /// the server, not one of the machine.
    Fast,
    /// Yes: PostgreSQL's own defaults.
    Durable,
}

/// Options for a [`Postgres`](crate::Postgres), see [`Postgres::builder`](crate::Postgres::builder).
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing before start()"]
pub struct PostgresBuilder {
    pub(super) binaries: Option<PathBuf>,
    pub(super) data_dir: Option<PathBuf>,
    pub(super) durability: Option<Durability>,
    pub(super) in_memory: bool,
    pub(super) port: Option<NonZeroU16>,
    pub(super) settings: Vec<(String, String)>,
}

impl PostgresBuilder {
    /// Keeps the data in this directory, which is made if it is missing and used again on the next start.
    ///
    /// Default: a new directory that is removed with the server. When root starts the server, it runs as the directory's
    /// owner. Its log is in the directory as `server.log`.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(directory.into());
        self
    }

    /// Chooses between speed and safety. Default: durable with a [`data_dir`](Self::data_dir), fast without.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Keeps the data of a server without a [`data_dir`](Self::data_dir) in memory, where a server and its databases start
    /// several times faster: in `/dev/shm`, if 4 GiB are free there and in the machine. Otherwise, or if `TMPDIR` is set,
    /// the data are where they are by default.
    ///
    /// Meant for tests: the data take memory until the server stops, and a desktop may remove a user's files there when
    /// the user logs out.
    pub const fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// Accepts connections on this port of 127.0.0.1, never on other addresses. *Every* user of the machine can connect, as
    /// superuser and without a password, so choose it only on a machine or container of your own. Default: a Unix socket
    /// that only the server's user and root can reach, at a new path each time.
    pub const fn port(mut self, port: NonZeroU16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets one of PostgreSQL's own settings, such as `log_statement` to `all`.
    ///
    /// The last value of a name counts, also over those of [`Durability::Fast`]. The address (`listen_addresses`, `port`,
    /// `unix_socket_directories`) and the destination of the log (`logging_collector`, `log_destination`, `lc_messages`)
    /// cannot be changed, since the URL and the errors depend on them: they are ignored with a warning.
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Limits the number of connections. Default: PostgreSQL's own, 100.
    pub fn max_connections(self, limit: u16) -> Self {
        self.setting("max_connections", limit.to_string())
    }

    /// Uses the `initdb` and `postgres` in this directory. Default: see [where the binaries come
    /// from](crate#where-the-binaries-come-from).
    pub fn binaries(mut self, directory: impl Into<PathBuf>) -> Self {
        self.binaries = Some(directory.into());
        self
    }
}
