//! Starting a server: everything that happens between the options and the first connection.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use super::binaries::Binaries;
use super::builder::{Durability, PostgresBuilder};
use super::data_dir::DataDir;
use super::error::{failure, failure_from};
use super::guard::{Guard, Launch, Launched, Orders};
use super::user::ServerUser;
use super::{Postgres, blocking};
use crate::{Error, Result};

/// How long a server may take to start. Only the recovery of a large data directory takes more than a moment.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How often the status file is read meanwhile, which costs microseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The longest path of a socket: systems allow 104 to 108 bytes.
const PATH_LIMIT: usize = 100;

/// The path of the socket below the temporary directory.
const SOCKET: &str = "/uniqueue-XXXXXX/.s.PGSQL.5432";

/// The file system of Linux that is in memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// The KiB that must be free for a server in memory. A server begins with 40 MB and grows with its data.
const FREE_MEMORY: u64 = 4 << 20;

const FAST: [(&str, &str); 6] = [
    ("fsync", "off"),
    ("synchronous_commit", "off"),
    ("full_page_writes", "off"),
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("jit", "off"),
];

impl PostgresBuilder {
    /// Starts the server and waits until it accepts connections.
    ///
    /// Dropping the future earlier stops the server as well.
    ///
    /// # Errors
    ///
    /// [`Error`] when no binaries are found; when the data directory is of another
    /// major version, in use by another server, or not PostgreSQL's; when the port is in use or a setting is wrong. It
    /// says which, and what helps.
    pub async fn start(self) -> Result<Postgres> {
        blocking(move || start(self)).await
    }
}

fn start(options: PostgresBuilder) -> Result<Postgres> {
    let PostgresBuilder { binaries, data_dir, durability, in_memory, port, settings } = options;
    let begun_at = Instant::now();
    let user = ServerUser::detect()?;
    let (data_dir, user) = match data_dir {
        Some(given) => DataDir::open(given, user).map(|(data_dir, user)| (Some(data_dir), user))?,
        None => (None, user),
    };
    let binaries = match binaries {
        Some(given) => Binaries::at(given, "binaries(…)", user)?,
        None => Binaries::find(user)?,
    };
    if let Some(data_dir) = &data_dir {
        data_dir.require(binaries.version, user)?;
    }
    let durability = durability.unwrap_or(if data_dir.is_some() { Durability::Durable } else { Durability::Fast });

    let is_in_memory = in_memory && data_dir.is_none() && env::var_os("TMPDIR").is_none() && has_memory();
    let temporary = if is_in_memory { PathBuf::from(SHARED_MEMORY) } else { temporary() };
    let orders = Orders {
        binaries: &binaries.directory,
        data_dir: data_dir.as_ref().map(|data_dir| data_dir.path.as_path()),
        settings: &all_settings(durability, port, settings),
        stop_signal: if data_dir.is_some() { "INT" } else { "QUIT" },
        sync: match durability {
            Durability::Fast => "--no-sync",
            Durability::Durable => "",
        },
        temporary: &temporary,
    };
    let explain = |complaint: &str| explain(complaint, orders.data_dir, port);
    let mut launch = match Guard::launch(user, &orders)? {
        Launched::Started(launch) => launch,
        Launched::Ended { complaint } => return Err(explain(&complaint)),
    };
    let directory = orders.data_dir.map_or_else(|| launch.home.join("data"), Path::to_path_buf);
    wait(&mut launch, &directory, explain)?;

    let url = url(port, &launch.home);
    let version = binaries.version;
    tracing::debug!(%version, url, elapsed = ?begun_at.elapsed(), "embedded PostgreSQL started");
    Ok(Postgres { binaries: binaries.directory, data_dir: directory, guard: launch.guard, url, version })
}

/// Settings that the URL and the errors depend on, so that a caller's values are ignored. The directory of the socket is
/// an argument.
const FIXED: [&str; 6] =
    ["listen_addresses", "port", "unix_socket_directories", "logging_collector", "log_destination", "lc_messages"];

/// The server's settings: the defaults, then the caller's, which override them unless they are [`FIXED`].
fn all_settings(
    durability: Durability,
    port: Option<NonZeroU16>,
    given: Vec<(String, String)>,
) -> Vec<(String, String)> {
    let defaults: &[_] = match durability {
        Durability::Fast => &FAST,
        Durability::Durable => &[],
    };
    // The reason of a failed start is read from standard error, in English.
    let log = [("logging_collector", "off"), ("log_destination", "stderr"), ("lc_messages", "C")];
    let number = port.map_or(SOCKET_PORT, NonZeroU16::get).to_string();
    let address = match port {
        None => [("listen_addresses", ""), ("port", &number)].to_vec(),
        Some(_) => [("listen_addresses", "127.0.0.1"), ("port", &number), ("unix_socket_directories", "")].to_vec(),
    };
    let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    let given = given.into_iter().filter(|(name, _)| !is_fixed(name));
    defaults.iter().chain(&log).chain(&address).map(own).chain(given).collect()
}

fn is_fixed(name: &str) -> bool {
    // The server reads a dash as an underscore.
    let name = name.replace('-', "_");
    let is_fixed = FIXED.iter().any(|fixed| fixed.eq_ignore_ascii_case(&name));
    if is_fixed {
        tracing::warn!(
            setting = name,
            "setting ignored: the address and the log of an embedded server cannot be changed"
        );
    }
    is_fixed
}

/// The directory for throw-away files, or `/tmp` if a socket's path would be too long in it, or would need quoting in
/// PostgreSQL's settings or in a URL.
fn temporary() -> PathBuf {
    let directory = env::temp_dir();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(byte);
    let bytes = directory.as_os_str().as_encoded_bytes();
    if directory.is_absolute() && bytes.len() + SOCKET.len() <= PATH_LIMIT && bytes.iter().all(plain) {
        directory
    } else {
        PathBuf::from("/tmp")
    }
}

/// Whether the directory of shared memory is there and [`FREE_MEMORY`] is free, in it and in the machine. In a container it
/// often has 64 MB.
fn has_memory() -> bool {
    let Ok(output) = Command::new("df").args(["-Pk", SHARED_MEMORY]).stderr(Stdio::null()).output() else {
        return false;
    };
    // Filesystem 1024-blocks Used Available Capacity Mounted on
    let text = String::from_utf8_lossy(&output.stdout);
    let columns: Vec<_> = text.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    let [_, _, _, free, _, SHARED_MEMORY] = columns[..] else { return false };
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    // MemAvailable:   20000000 kB
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next());
    [Some(free), available].into_iter().all(|kibibytes| {
        kibibytes.and_then(|number| number.parse::<u64>().ok()).is_some_and(|number| number >= FREE_MEMORY)
    })
}

/// Waits until the postmaster reports `ready` in its status file, or `standby` for a standby that can be read, as
/// `pg_ctl --wait` does: line 1 of it is the process, line 8 the status. A connection would start a backend for each attempt.
fn wait(launch: &mut Launch, data_dir: &Path, explain: impl Fn(&str) -> Error) -> Result<()> {
    let status_file = data_dir.join("postmaster.pid");
    let begun_at = Instant::now();
    loop {
        let status = fs::read_to_string(&status_file).unwrap_or_default();
        let mut lines = status.lines().map(str::trim);
        // The file may be of another server, which uses the directory or crashed in it.
        if lines.next() == Some(&launch.server) && matches!(lines.nth(6), Some("ready" | "standby")) {
            return Ok(());
        }
        let complaint = launch.complaint().map_err(failure_from("cannot watch the server", "try again"))?;
        if let Some(complaint) = complaint {
            return Err(explain(&complaint));
        }
        if begun_at.elapsed() > START_TIMEOUT {
            return Err(failure(
                format!("the server was not ready within {START_TIMEOUT:?}: {}", data_dir.display()),
                "look into server.log there, and for other work on this machine",
            ));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Makes an error from the output of `initdb` or the server.
fn explain(complaint: &str, data_dir: Option<&Path>, port: Option<NonZeroU16>) -> Error {
    tracing::debug!(complaint, "embedded PostgreSQL did not start");
    let in_use = [r#"lock file "postmaster.pid" already exists"#, "pre-existing shared memory block"];
    if let Some(data_dir) = data_dir.filter(|_| in_use.iter().any(|phrase| complaint.contains(phrase))) {
        return failure(
            format!("the data directory is in use by another server: {}", data_dir.display()),
            "connect to that server, stop it, or choose another directory",
        );
    }
    if complaint.contains("could not bind") || complaint.contains("could not create any TCP/IP sockets") {
        let port = port.map_or(SOCKET_PORT, NonZeroU16::get);
        return failure(format!("the port is in use: {port}"), "choose another port, or stop its user");
    }
    let line = complaint
        .lines()
        .find_map(|line| ["FATAL:", "PANIC:", "error:"].iter().find_map(|mark| line.split_once(mark)))
        .map(|(_, reason)| reason)
        .or_else(|| complaint.lines().last())
        .unwrap_or("it gave no reason");
    failure(
        format!("PostgreSQL did not start: {}", line.trim()),
        "check the settings and the free space; RUST_LOG=uniqueue=debug shows its whole output",
    )
}

/// The port in the name of a socket, whose directory is never shared.
const SOCKET_PORT: u16 = 5432;

fn url(port: Option<NonZeroU16>, home: &Path) -> String {
    match port {
        // libpq wants a host before the port, and prefers the one in the query.
        None => {
            // Plain characters and slashes only, see `temporary`.
            let home = home.display().to_string().replace('/', "%2F");
            format!("postgres://postgres@localhost:{SOCKET_PORT}/postgres?host={home}")
        }
        Some(port) => format!("postgres://postgres@127.0.0.1:{port}/postgres"),
    }
}
