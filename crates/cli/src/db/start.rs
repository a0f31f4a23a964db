//! `uniqueue db start`.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use uniqueue::embedded::{Postgres, PostgresBuilder};
use uniqueue::shutdown_signal;
use uniqueue_admin::Given;

use super::data_dir::data_dir;
use crate::exit::{Failure, Verdict};
use crate::output::{self, Form};

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
