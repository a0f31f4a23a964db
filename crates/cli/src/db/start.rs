//! `uniqueue db start`.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use uniqueue::embedded::{Listen, Postgres};
use uniqueue::shutdown_signal;

use super::data_dir::data_dir;
use crate::Verdict;
use crate::failure::Failure;
use crate::output;

/// Run PostgreSQL in the foreground until Ctrl-C, with data that stay.
///
/// It prints the URL to paste. Without --port it can be reached only by this user and root, through a Unix socket at a
/// new path each time.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StartArguments {
    /// Where the data stay [default: $XDG_DATA_HOME/uniqueue/postgres, else ~/.local/share/uniqueue/postgres; for root
    /// /var/lib/uniqueue/postgres]
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,

    /// Listen on this port of 127.0.0.1: the URL stays the same, and every user of this machine can connect, as superuser
    /// and without a password
    #[arg(long, value_name = "N")]
    pub(super) port: Option<NonZeroU16>,

    /// Print the URL, version and data directory as one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  uniqueue db start
  uniqueue db start --port 5433 --data-dir ./pgdata

Exit codes:
  0    stopped by Ctrl-C, SIGTERM or `uniqueue db stop`
  2    a wrong command line, or the server did not start or ended by itself";

/// How often the server is asked whether it still runs.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Runs a server with data that stay, until somebody stops it.
pub(super) async fn start(arguments: StartArguments) -> Result<Verdict, Failure> {
    let data_dir = data_dir(arguments.data_dir)?;
    let listen = arguments.port.map_or(Listen::Socket, Listen::Tcp);
    let mut stopped = pin!(shutdown_signal());
    let postgres = tokio::select! {
        // First, so that the signal is caught before anybody can read the URL and send one.
        biased;
        () = &mut stopped => return Ok(Verdict::Fine),
        started = Postgres::builder().data_dir(&data_dir).listen(listen).start() => started?,
    };
    announce(&postgres, arguments.json)?;
    tokio::select! {
        () = stopped => {}
        () = ended(postgres.url()) => {
            let log = postgres.data_dir().join("server.log");
            // In order: `uniqueue db stop`, or somebody else who asked it to.
            return match postgres.stop().await {
                Ok(()) => Ok(Verdict::Fine),
                Err(_) => {
                    Err(Failure::refused("the server has ended by itself", format!("see {}", log.display())))
                }
            };
        }
    }
    postgres.stop().await?;
    Ok(Verdict::Fine)
}

fn announce(postgres: &Postgres, as_json: bool) -> Result<(), Failure> {
    let (url, version, data_dir) = (postgres.url(), postgres.version().to_string(), postgres.data_dir().display());
    if as_json {
        return output::print_json(&json!({ "url": url, "version": version, "data_dir": data_dir.to_string() }));
    }
    output::print(&format!(
        "PostgreSQL {version} is running, with its data in {data_dir}\n\
         \n    {url}\n\n\
         Look around:  psql '{url}'\n\
         Migrate:      uniqueue migrate --database-url '{url}'\n\
         Stop:         Ctrl-C, or `uniqueue db stop` elsewhere; the data stay\n"
    ))
}

/// Resolves when nothing answers at the URL any more.
async fn ended(url: &str) {
    let mut connection: Option<PgConnection> = None;
    loop {
        connection = match connection {
            Some(mut open) => open.ping().await.is_ok().then_some(open),
            // An error that the server itself sends, such as too many connections, is a sign of life.
            None => match PgConnection::connect(url).await {
                Ok(open) => Some(open),
                Err(sqlx::Error::Database(_)) => None,
                Err(_) => return,
            },
        };
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}
