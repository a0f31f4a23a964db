//! Connections of the dashboard and of the other doors to the database. Few, each statement limited, and read-only where
//! asked.

use std::time::Duration;

use sqlx::postgres::PgPoolOptions;
use uniqueue::{Client, PlaceMap, Places};

use super::args::ServeArguments;
use crate::database::Database;
use crate::exit::Failure;

/// How long a request waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// The URL of the database that the arguments name, after a check of its schema.
pub(super) async fn given_url(arguments: &ServeArguments) -> Result<String, Failure> {
    let database = Database::open_migrated(&arguments.database).await?;
    let url = database.url.clone();
    database.close().await?;
    Ok(url)
}

/// A client on a pool of its own, with the dashboard's limit for statements.
pub(super) fn open(url: &str, arguments: &ServeArguments) -> Result<Client, Failure> {
    open_with(url, arguments, arguments.connections, arguments.statement_timeout.0)
}

/// Returns a client with its own pool of at most `connections` connections. Each statement ends after `timeout`.
pub(super) fn open_with(
    url: &str,
    arguments: &ServeArguments,
    connections: u32,
    timeout: Duration,
) -> Result<Client, Failure> {
    let options =
        Client::connect_options(url)?.application_name("uniqueue serve").options(settings(arguments, timeout));
    let pool =
        PgPoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE_TIMEOUT).connect_lazy_with(options);
    Ok(Client::builder().schema(arguments.database.schema().clone()).pool(pool))
}

/// The places of a map, each with a pool and limits as the pool of a dashboard has them.
pub(super) fn open_places(map: PlaceMap, arguments: &ServeArguments) -> Places {
    let options = Client::builder()
        .max_connections(arguments.connections)
        .connect_timeout(ACQUIRE_TIMEOUT)
        .settings(settings(arguments, arguments.statement_timeout.0));
    Places::with(map, options)
}

/// The settings of a session.
fn settings(arguments: &ServeArguments, timeout: Duration) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        ("statement_timeout", format!("{}ms", timeout.as_millis().max(1))),
        ("idle_in_transaction_session_timeout", "60s".to_owned()),
    ];
    if arguments.read_only {
        settings.push(("default_transaction_read_only", "on".to_owned()));
    }
    settings
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;
    use uniqueue::NewJob;
    use uniqueue::embedded::Postgres;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArguments,
    }

    #[tokio::test]
    async fn statements_are_limited_and_change_nothing_where_asked() {
        let postgres = Postgres::start().await.unwrap();
        let parse = |words: &[&str]| Line::parse_from([&["serve"], words].concat()).serve;
        let writing = open(postgres.url(), &parse(&["--statement-timeout", "50ms"])).unwrap();
        let timeout = sqlx::query("SELECT pg_sleep(60)").execute(writing.pool()).await.unwrap_err();
        assert_eq!(timeout.as_database_error().unwrap().code().as_deref(), Some("57014"));
        let admin = Client::connect(postgres.url()).await.unwrap();
        admin.migrate().await.unwrap();
        let reading = open(postgres.url(), &parse(&["--read-only"])).unwrap();
        reading.check_schema().await.unwrap();
        let refused = reading.insert(NewJob::new("a", &json!({}))).await.unwrap_err();
        assert!(refused.to_string().contains("read-only"), "{refused}");
        assert_eq!(reading.pool().options().get_max_connections(), 5);
    }
}
