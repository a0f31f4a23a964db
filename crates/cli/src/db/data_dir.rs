//! The data directory of `uniqueue db start`, and the server that runs there.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, Row};

use crate::exit::Failure;

/// How long a server on this machine may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The given directory, else the default.
pub(super) fn data_dir(given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    given.map_or_else(default_data_dir, Ok)
}

fn default_data_dir() -> Result<PathBuf, Failure> {
    if rustix::process::geteuid().is_root() {
        // The server runs as another user, who cannot read root's home.
        return Ok(PathBuf::from("/var/lib/uniqueue/postgres"));
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data_home = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
    match data_home {
        Some(data_home) => Ok(data_home.join(Path::new("uniqueue/postgres"))),
        None => Err(Failure::refused("neither XDG_DATA_HOME nor HOME is an absolute path", "give --data-dir")),
    }
}

/// The server that runs in a data directory, by its status file.
#[derive(Debug)]
pub(super) struct Running {
    /// The postmaster's process.
    pub(super) process: String,
    /// The URL of the database `postgres`.
    pub(super) url: String,
    started_at: i64,
}

impl Running {
    /// Reads `postmaster.pid`: process, directory, start, port, socket's directory, address. Without the file no server runs.
    pub(super) fn read(data_dir: &Path) -> Result<Option<Self>, Failure> {
        let file = data_dir.join("postmaster.pid");
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => {
                let hint = "run this as the user who started the server, or as root";
                return Err(Failure::environment(format!("cannot read {}", file.display()), hint, error));
            }
        };
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        let line = |number: usize| lines.get(number).copied().unwrap_or_default();
        let (process, port, socket) = (line(0), line(3), line(4));
        let started_at = line(2).parse();
        let is_complete = process.parse::<u32>().is_ok() && port.parse::<u16>().is_ok();
        let (true, Ok(started_at)) = (is_complete, started_at) else {
            let problem = format!("the server is still starting: {}", data_dir.display());
            return Err(Failure::refused(problem, "try again in a moment"));
        };
        let url = match socket {
            "" => format!("postgres://postgres@127.0.0.1:{port}/postgres"),
            socket => {
                let socket = socket.replace('/', "%2F");
                format!("postgres://postgres@localhost:{port}/postgres?host={socket}")
            }
        };
        Ok(Some(Self { process: process.to_owned(), url, started_at }))
    }

    /// Checks that the server is the one of the file. After a crash the file stays, and its process id may belong to
    /// another process.
    pub(super) async fn check(&self) -> Result<(), Failure> {
        let query = async {
            let mut connection = PgConnection::connect_with(&PgConnectOptions::from_str(&self.url)?).await?;
            let started = "SELECT extract(epoch FROM pg_postmaster_start_time())::bigint AS started_at";
            let started_at: i64 = sqlx::query(started).fetch_one(&mut connection).await?.try_get("started_at")?;
            connection.close().await?;
            Ok::<_, sqlx::Error>(started_at)
        };
        let hint = "it may have crashed: `uniqueue db start` starts it again";
        let problem = || format!("the server does not answer: process {}", self.process);
        let started_at = match tokio::time::timeout(CONNECT_TIMEOUT, query).await {
            Ok(Ok(started_at)) => started_at,
            Ok(Err(error)) => return Err(Failure::refused(format!("{}: {error}", problem()), hint)),
            Err(_) => return Err(Failure::refused(problem(), hint)),
        };
        // The server reads the clock a second time for its own start time, and the file has whole seconds.
        if (started_at - self.started_at).abs() > 2 {
            return Err(Failure::refused("another server answers at this address", hint));
        }
        Ok(())
    }
}
