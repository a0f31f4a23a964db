//! What a measurement must say of where it was made.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;
use sqlx::{PgConnection, Row};
use uniqueue::embedded::Postgres;

/// Settings that decide what a number means.
const TOLD: [&str; 9] = [
    "autovacuum",
    "checkpoint_timeout",
    "fsync",
    "full_page_writes",
    "jit",
    "max_wal_size",
    "shared_buffers",
    "synchronous_commit",
    "wal_level",
];

/// The circumstances.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Facts {
    /// This command's.
    pub(super) version: &'static str,
    /// release or debug.
    pub(super) build: &'static str,
    pub(super) postgres: String,
    /// Whether the server was started for this.
    pub(super) embedded: bool,
    /// Whether a commit is on the disk when it is answered, by the settings.
    pub(super) durable: bool,
    /// The embedded server's, such as ext4; tmpfs keeps nothing, whatever the settings.
    pub(super) filesystem: Option<String>,
    /// The processors of this machine, which the server need not run on.
    pub(super) processors: usize,
    pub(super) settings: BTreeMap<String, String>,
}

impl Facts {
    pub(super) async fn read(
        connection: &mut PgConnection,
        postgres_version: String,
        postgres: Option<&Postgres>,
    ) -> sqlx::Result<Self> {
        let rows = sqlx::query("SELECT name, current_setting(name) FROM unnest($1::text[]) AS s (name)")
            .bind(&TOLD[..])
            .fetch_all(connection)
            .await?;
        let read = |row: &sqlx::postgres::PgRow| Ok((row.try_get(0)?, row.try_get(1)?));
        let settings = rows.iter().map(read).collect::<sqlx::Result<BTreeMap<String, String>>>()?;
        let is = |name: &str, wanted: &[&str]| settings.get(name).is_some_and(|value| wanted.contains(&value.as_str()));
        let commits = ["on", "local", "remote_write", "remote_apply"];
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            postgres: postgres_version,
            embedded: postgres.is_some(),
            durable: is("fsync", &["on"]) && is("full_page_writes", &["on"]) && is("synchronous_commit", &commits),
            filesystem: postgres.and_then(|postgres| filesystem(postgres.data_dir())),
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            settings,
        })
    }

    /// What must not be overlooked.
    pub(super) fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        if self.build == "debug" {
            warnings.push("a debug build: the numbers say nothing of a release build");
        }
        if !self.durable {
            warnings.push("this server is not durable: a commit is not on the disk when it is answered");
        }
        if self.filesystem.as_deref() == Some("tmpfs") {
            warnings
                .push("the data are in memory (tmpfs), where nothing is durable: set TMPDIR to a directory on a disk");
        }
        warnings
    }

    /// For people, in a line or two.
    pub(super) fn text(&self) -> String {
        let server = if self.embedded { "of its own" } else { "that you gave" };
        let durable = if self.durable { "durable" } else { "NOT durable" };
        let settings: Vec<_> = self.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let filesystem = self.filesystem.as_ref().map(|name| format!(", data on {name}")).unwrap_or_default();
        format!(
            "uniqueue {} ({}), {} processors; PostgreSQL {} {server}, {durable}{filesystem}\n{}\n",
            self.version,
            self.build,
            self.processors,
            self.postgres,
            settings.join(", ")
        )
    }
}

/// The kind of file system that a directory is on, as Linux tells it.
fn filesystem(directory: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let holds = |fields: &Vec<&str>| fields.len() > 2 && directory.starts_with(fields[1]);
    fields.filter(holds).max_by_key(|fields| fields[1].len()).map(|fields| fields[2].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_numbers_worthless_is_said() {
        let mut facts = Facts { build: "release", durable: true, ..Facts::default() };
        assert_eq!(facts.warnings(), [""; 0]);
        facts.filesystem = Some("tmpfs".to_owned());
        assert!(facts.warnings()[0].contains("in memory"));
        facts.durable = false;
        assert_eq!(facts.warnings().len(), 2);
    }
}
