//! `uniqueue db start`.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use sqlx::{Connection, PgConnection};
use uniqueue::embedded::{Listen, Postgres};
use uniqueue::shutdown_signal;

use crate::Verdict;
use crate::args::DbStartArguments;
use crate::failure::Failure;
use crate::output;

/// How often the server is asked whether it still runs.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Runs a server with data that stay, until somebody stops it.
pub(crate) async fn start(arguments: DbStartArguments) -> Result<Verdict, Failure> {
    let data_dir = match arguments.data_dir {
        Some(given) => given,
        None => default_data_dir()?,
    };
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
            let _ = postgres.stop().await;
            return Err(Failure::refused("the server has ended by itself", format!("see {}", log.display())));
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
         Stop:         Ctrl-C; the data stay\n"
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

fn default_data_dir() -> Result<PathBuf, Failure> {
    if is_root() {
        // The server runs as another user, to whom root's home is closed.
        return Ok(PathBuf::from("/var/lib/uniqueue/postgres"));
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data_home = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
    match data_home {
        Some(data_home) => Ok(data_home.join(Path::new("uniqueue/postgres"))),
        None => Err(Failure::refused("neither XDG_DATA_HOME nor HOME is an absolute path", "give --data-dir")),
    }
}

/// Asks `id`, since the standard library cannot and `libc` would need `unsafe`.
fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
