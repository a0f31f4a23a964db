//! `uniqueue db start` and `uniqueue db stop`, and the data directory of their server.

use std::io;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::str::FromStr;
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, Row};
use uniqueue::embedded::{Postgres, PostgresBuilder};
use uniqueue::shutdown_signal;

use crate::prelude::*;

/// Run PostgreSQL in the foreground until Ctrl-C, with a data directory that stays.
///
/// It prints the database URL. Without --port only this user and root can connect, through a Unix socket with a new path
/// each time.
///
/// Examples:
///   uniqueue db start
///   uniqueue db start --port 5433 --data-dir ./pgdata
///
/// Exit codes:
///   0    stopped by Ctrl-C, SIGTERM or `uniqueue db stop`
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct StartArguments {
    /// The data directory [default: $XDG_DATA_HOME/uniqueue/postgres, else ~/.local/share/uniqueue/postgres; for root
    /// /var/lib/uniqueue/postgres]
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,

    /// Listen on this port of 127.0.0.1, so that the URL stays the same; every user of this machine can then connect as
    /// superuser without a password
    #[arg(long, value_name = "N")]
    pub(super) port: Option<NonZeroU16>,

    /// Print the URL, version and data directory as one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// How often the command checks that the server still runs.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Runs a server until an interrupt or `uniqueue db stop`.
pub(super) async fn start(arguments: StartArguments) -> Result<Verdict, Failure> {
    let data_dir = data_dir(arguments.data_dir)?;
    let builder = Postgres::builder().data_dir(&data_dir).given(arguments.port, PostgresBuilder::port);
    let mut stopped = pin!(shutdown_signal());
    let postgres = tokio::select! {
        // Polled first, so that signals are caught before the URL is printed.
        biased;
        () = &mut stopped => return Ok(Verdict::Fine),
        started = builder.start() => started?,
    };
    announce(&postgres, arguments.json)?;
    tokio::select! {
        () = stopped => {}
        () = ended(postgres.url()) => {
            let log = postgres.data_dir().join("server.log");
            // `uniqueue db stop` and other orderly stops succeed here.
            return match postgres.stop().await {
                Ok(()) => Ok(Verdict::Fine),
                Err(_) => {
                    Err(Failure::refused("the server ended by itself", format!("see {}", log.display())))
                }
            };
        }
    }
    postgres.stop().await?;
    Ok(Verdict::Fine)
}

fn announce(postgres: &Postgres, as_json: bool) -> Result<Verdict, Failure> {
    let command = output::own_command();
    let (url, version, data_dir) = (postgres.url(), postgres.version().to_string(), postgres.data_dir().display());
    let running = json!({ "url": url, "version": version, "data_dir": data_dir.to_string() });
    let text = format!(
        "PostgreSQL {version} is running, with its data in {data_dir}\n\
         \n    {url}\n\n\
         Connect:  psql '{url}'\n\
         Migrate:  {command} migrate --database-url '{url}'\n\
         Stop:     Ctrl-C, or `{command} db stop` in another terminal; the data stay\n"
    );
    Form::of_one(as_json).object(&running, |_| text)?.print()
}

/// Returns when no server answers at the URL any more.
async fn ended(url: &str) {
    let mut connection: Option<PgConnection> = None;
    loop {
        connection = match connection {
            Some(mut open) => open.ping().await.is_ok().then_some(open),
            // An error from the server, such as too many connections, shows that the server runs.
            None => match PgConnection::connect(url).await {
                Ok(open) => Some(open),
                Err(sqlx::Error::Database(_)) => None,
                Err(_) => return,
            },
        };
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// How often the command checks whether the server has stopped.
const STOPPED_INTERVAL: Duration = Duration::from_millis(20);

/// How long a stop may take. The checkpoint of a large data directory takes most of it.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);

/// Stop the server that `uniqueue db start` runs in another terminal.
///
/// It closes open connections and keeps the data. The command in the other terminal ends with exit code 0.
///
/// Examples:
///   uniqueue db stop
///   uniqueue db stop --data-dir ./pgdata
///
/// Exit codes:
///   1    no server runs there
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct StopArguments {
    /// The server's data directory [default: that of `uniqueue db start`]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Print one JSON object instead of text: {"stopped": true, "data_dir": …}
    #[arg(long)]
    json: bool,
}

/// Stops a server and waits until it has stopped.
pub(super) async fn stop(arguments: StopArguments) -> Result<Verdict, Failure> {
    let data_dir = data_dir(arguments.data_dir)?;
    let left = || "the server may be stopping".to_owned();
    let has_stopped = or_interrupted(left, async {
        let Some(running) = Running::read(&data_dir)? else { return Ok(false) };
        running.check().await?;
        signal(&running.process)?;
        wait_for_end(&data_dir, &running.process).await?;
        Ok(true)
    });
    let has_stopped = has_stopped.await?;
    let shown = data_dir.display().to_string();
    let (verdict, said) = match has_stopped {
        true => (Verdict::Fine, format!("stopped the server of {shown}\n")),
        false => (Verdict::NotFine, format!("no server runs in {shown}\n")),
    };
    let stopped = json!({ "stopped": has_stopped, "data_dir": shown });
    Form::of_one(arguments.json).message(&stopped, said)?.verdict(verdict).print()
}

/// Requests PostgreSQL's fast shutdown.
fn signal(process: &str) -> Result<(), Failure> {
    let process_id = process.parse().ok().and_then(Pid::from_raw).ok_or(Errno::SRCH);
    process_id.and_then(|id| kill_process(id, Signal::INT)).map_err(|error| {
        let hint = "run this as the user who started the server, or as root";
        Failure::environment(format!("cannot signal the server: process {process}"), hint, error.into())
    })
}

/// Returns when the server has removed its status file, which is its last step.
async fn wait_for_end(data_dir: &std::path::Path, process: &str) -> Result<(), Failure> {
    let begun_at = Instant::now();
    while begun_at.elapsed() < STOP_TIMEOUT {
        // Another process means that the next server has started already.
        match Running::read(data_dir) {
            Ok(Some(running)) if running.process == process => {}
            _ => return Ok(()),
        }
        tokio::time::sleep(STOPPED_INTERVAL).await;
    }
    let problem = format!("the server has not stopped within {STOP_TIMEOUT:?}: {}", data_dir.display());
    Err(Failure::refused(problem, "see server.log there; it may still be writing its checkpoint"))
}

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
