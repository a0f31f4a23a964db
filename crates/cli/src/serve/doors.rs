//! The doors: the dashboard, and beside it Faktory and Open Job Spec where they are asked for. Each has a listener and
//! few connections to the database of its own, and the certificate, the credentials and the limits of the dashboard.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use sqlx::postgres::PgPoolOptions;
use tokio_util::sync::CancellationToken;
use uniqueue::{Maintainer, PlaceMap, Places};
use uniqueue_faktory::{Faktory, Guard, Rights};
use uniqueue_ojs::{Access, Ojs, in_ojs_words};

use super::args::ServeArguments;
use super::authenticate::{Checks, around};
use super::connections::{Limits, Listening, serve};
use super::credentials::{Credentials, User, token_lines};
use crate::prelude::*;

/// How long a statement of a client or worker may take. A mutation of Faktory reads and changes many jobs, a page at a time, and
/// a batch of inserts takes longer than a page.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// The connections to the database for Faktory. Fetches and results of all clients share a few, pushes of unique jobs take one
/// each.
const FAKTORY_CONNECTIONS: u32 = 12;

/// The connections to the database for Open Job Spec.
const OJS_CONNECTIONS: u32 = 10;

/// How late a retry and the end of a reservation may be noticed.
const PROMOTE_INTERVAL: Duration = Duration::from_millis(150);
const RESCUE_INTERVAL: Duration = Duration::from_millis(500);

/// A door: its URL, with the port that was chosen, and the future that serves it until the stop.
pub(super) struct Door {
    pub(super) url: Option<String>,
    pub(super) serving: Pin<Box<dyn Future<Output = ()>>>,
}

/// The settings that all doors share.
pub(super) struct Doors<'a> {
    pub(super) arguments: &'a ServeArguments,
    /// The database of the doors beside the dashboard.
    pub(super) url: String,
    pub(super) checks: Arc<Checks>,
    pub(super) limits: Limits,
    pub(super) stop: CancellationToken,
}

impl Doors<'_> {
    /// The door of a dashboard.
    pub(super) fn dashboard(&self, listening: Listening, router: Router) -> Door {
        let url = listening.url();
        let serving = Box::pin(serve(listening, around(router, &self.checks), self.limits, self.stop.clone()));
        Door { url, serving }
    }

    /// The door for clients of Faktory.
    pub(super) fn faktory(&self, listening: Listening) -> Result<Door, Failure> {
        let client = open(&self.url, self.arguments, FAKTORY_CONNECTIONS, STATEMENT_TIMEOUT)?;
        let connections = self.arguments.max_clients as usize;
        let limits = uniqueue_faktory::Limits { connections, ..Default::default() };
        let guard = Arc::new(ByPeer(Arc::clone(&self.checks)));
        let mut faktory = Faktory::new(client.clone()).limits(limits).guard(guard);
        if let Some(file) = &self.arguments.bearer_token {
            for (name, (token, rights)) in token_lines(file)? {
                faktory = faktory.user(name, token, rights);
            }
        }
        let scheme = if matches!(listening, Listening::Tls(..)) { "tcp+tls" } else { "tcp" };
        let url = listening.address().map(|address| format!("{scheme}://{address}"));
        let stopped = self.stop.clone().cancelled_owned();
        let serving = Box::pin(async move {
            match listening {
                Listening::Tcp(tcp) => faktory.serve(tcp, stopped).await,
                Listening::Tls(tcp, tls) => faktory.serve_with(tcp, move |stream| tls.accept(stream), stopped).await,
                // It is opened by its address.
                Listening::Unix(_) => {}
            }
            client.pool().close().await;
        });
        Ok(Door { url, serving })
    }

    /// The door for Open Job Spec. It does the maintenance that its workers need.
    pub(super) async fn ojs(&self, listening: Listening) -> Result<Door, Failure> {
        let client = open(&self.url, self.arguments, OJS_CONNECTIONS, STATEMENT_TIMEOUT)?;
        let maintainer = Maintainer::new(client.clone()).name("uniqueue serve --ojs");
        let maintainer = maintainer.promote_interval(PROMOTE_INTERVAL).rescue_interval(RESCUE_INTERVAL).start().await?;
        let router = Ojs::new(client.clone()).access(access).checks(self.arguments.checks()).start().await?;
        let (url, router) = (listening.url(), around(router, &self.checks));
        let serving = serve(listening, router, Limits { words: in_ojs_words, ..self.limits }, self.stop.clone());
        let serving = Box::pin(async move {
            serving.await;
            maintainer.stop().await;
            client.pool().close().await;
        });
        Ok(Door { url, serving })
    }
}

/// Refuses credentials that no client of Faktory could show.
pub(super) fn check_faktory(arguments: &ServeArguments, credentials: &Credentials) -> Result<(), Failure> {
    match arguments.faktory {
        Some(address) if credentials.are_needed() && arguments.bearer_token.is_none() => Err(Failure::refused(
            format!("clients of Faktory could not show credentials: {address}"),
            "give --bearer-token: a client shows a token as its password",
        )),
        _ => Ok(()),
    }
}

/// Counts wrong passwords of a peer of Faktory together with the dashboard.
struct ByPeer(Arc<Checks>);

impl Guard for ByPeer {
    fn wrong(&self, peer: Option<IpAddr>) -> Duration {
        self.0.delays.count(peer)
    }
}

fn access(request: &Request) -> Access {
    match request.extensions().get::<User>() {
        Some(User { rights: Rights::All, .. }) => Access::All,
        Some(User { rights: Rights::Read, .. }) => Access::Read,
        None => Access::None,
    }
}

/// How long a request waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// The URL of the database that the arguments name, after a check of its schema.
pub(super) async fn given_url(arguments: &ServeArguments) -> Result<String, Failure> {
    let database = Database::open_migrated(&arguments.database).await?;
    let url = database.url.clone();
    database.close().await?;
    Ok(url)
}

/// Returns a client with its own pool of at most `connections` connections. Each statement ends after `timeout`.
pub(super) fn open(
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
        let open = |words: &[&str]| {
            let arguments = parse(words);
            open(postgres.url(), &arguments, arguments.connections, arguments.statement_timeout.0).unwrap()
        };
        let writing = open(&["--statement-timeout", "50ms"]);
        let timeout = sqlx::query("SELECT pg_sleep(60)").execute(writing.pool()).await.unwrap_err();
        assert_eq!(timeout.as_database_error().unwrap().code().as_deref(), Some("57014"));
        let admin = Client::connect(postgres.url()).await.unwrap();
        admin.migrate().await.unwrap();
        let reading = open(&["--read-only"]);
        reading.check_schema().await.unwrap();
        let refused = reading.insert(NewJob::new("a", &json!({}))).await.unwrap_err();
        assert!(refused.to_string().contains("read-only"), "{refused}");
        assert_eq!(reading.pool().options().get_max_connections(), 5);
    }
}
