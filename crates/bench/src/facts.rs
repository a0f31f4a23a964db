//! The circumstances of a measurement: machine, server, build.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use sqlx::{PgConnection, Row};
use uniqueue::embedded::Postgres;

use crate::rounded::rounded;

/// The settings that decide what a number means.
const SETTINGS: [&str; 9] = [
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
pub(crate) struct Facts {
    /// The version of this command.
    pub(crate) version: &'static str,
    /// release or debug.
    pub(crate) build: &'static str,
    pub(crate) postgres: String,
    /// Whether the server was started for this.
    pub(crate) embedded: bool,
    /// Whether a commit is on the disk when the server acknowledges it, by the settings.
    pub(crate) durable: bool,
    /// The file system of the embedded server's data, such as ext4. On tmpfs nothing is durable.
    pub(crate) filesystem: Option<String>,
    /// The processors of this machine. A server that was given may run on another.
    pub(crate) processors: usize,
    /// Their name, from Linux.
    pub(crate) processor: Option<String>,
    pub(crate) memory_gib: Option<f64>,
    pub(crate) kernel: Option<String>,
    /// Milliseconds to write and sync 8 kB where the embedded server's data are: a median.
    pub(crate) fsync_ms: Option<f64>,
    /// Whether a checkpoint is made before each run. The role may lack the right.
    pub(crate) checkpoints: bool,
    pub(crate) settings: BTreeMap<String, String>,
}

impl Facts {
    pub(crate) async fn read(
        connection: &mut PgConnection,
        postgres_version: String,
        postgres: Option<&Postgres>,
    ) -> sqlx::Result<Self> {
        let rows = sqlx::query("SELECT name, current_setting(name) FROM unnest($1::text[]) AS s (name)")
            .bind(&SETTINGS[..])
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
            processor: line_of("/proc/cpuinfo", "model name"),
            memory_gib: line_of("/proc/meminfo", "MemTotal").and_then(|text| {
                let kibibytes: f64 = text.trim_end_matches("kB").trim().parse().ok()?;
                Some(rounded(kibibytes / 1024.0 / 1024.0))
            }),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()),
            fsync_ms: postgres.and_then(|postgres| fsync(postgres.data_dir()).ok()).map(rounded),
            checkpoints: false,
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            settings,
        })
    }

    /// The circumstances that make the numbers worth less.
    pub(crate) fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        if self.build == "debug" {
            warnings.push("a debug build: the numbers say nothing of a release build");
        }
        if !self.durable {
            warnings.push("this server is not durable: a commit is not on the disk when it is acknowledged");
        }
        if self.filesystem.as_deref() == Some("tmpfs") {
            warnings
                .push("the data are in memory (tmpfs), where nothing is durable: set TMPDIR to a directory on a disk");
        }
        if !self.checkpoints {
            warnings.push("this role may not ask for checkpoints: one may fall into some runs and not into others");
        }
        warnings
    }

    /// The same for people, in a few lines.
    pub(crate) fn text(&self) -> String {
        let server = if self.embedded { "of its own" } else { "that was given" };
        let durable = if self.durable { "durable" } else { "NOT durable" };
        let settings: Vec<_> = self.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let filesystem = self.filesystem.as_ref().map(|name| format!(", data on {name}")).unwrap_or_default();
        let fsync = self.fsync_ms.map(|time| format!(", fsync {time:.2} ms")).unwrap_or_default();
        let machine = [
            Some(format!("{} processors", self.processors)),
            self.processor.clone(),
            self.memory_gib.map(|size| format!("{size:.0} GiB")),
            self.kernel.as_ref().map(|kernel| format!("kernel {kernel}")),
        ];
        let machine: Vec<_> = machine.into_iter().flatten().collect();
        format!(
            "uniqueue {} ({}); {}\nPostgreSQL {} {server}, {durable}{filesystem}{fsync}\n{}\n",
            self.version,
            self.build,
            machine.join(", "),
            self.postgres,
            settings.join(", ")
        )
    }
}

/// The value of a line in a file of /proc.
fn line_of(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Milliseconds to write and sync a page.
fn fsync(directory: &Path) -> std::io::Result<f64> {
    const TIMES: usize = 51;
    let path = directory.join("bench-fsync");
    let mut file = fs::File::create(&path)?;
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let began = Instant::now();
        file.write_all(&[0; 8192])?;
        file.sync_data()?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    fs::remove_file(path)?;
    times.sort_by(f64::total_cmp);
    Ok(times[TIMES / 2])
}

/// The type of the file system that holds a directory, from Linux.
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
    fn circumstances_that_spoil_numbers_give_warnings() {
        let mut facts = Facts { build: "release", durable: true, checkpoints: true, ..Facts::default() };
        assert_eq!(facts.warnings(), [""; 0]);
        facts.filesystem = Some("tmpfs".to_owned());
        assert!(facts.warnings()[0].contains("in memory"));
        facts.durable = false;
        assert_eq!(facts.warnings().len(), 2);
    }
}
