//! The door for clients of Faktory: another listener, with the certificate and the tokens of the dashboard.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uniqueue_faktory::{Faktory, Guard, Limits};

use super::args::ServeArguments;
use super::authenticate::Checks;
use super::credentials::{Credentials, token_lines};
use super::listener::{Door, Listening};
use super::pool;
use crate::exit::Failure;

/// How long a statement may take. A mutation reads and changes many jobs, a page at a time.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// The connections to the database. Fetches and results of all clients share a few, pushes of unique jobs take one each.
const CONNECTIONS: u32 = 12;

/// Refuses credentials that no client of Faktory could show.
pub(super) fn check(arguments: &ServeArguments, credentials: &Credentials) -> Result<(), Failure> {
    match arguments.faktory {
        Some(address) if credentials.are_needed() && arguments.bearer_token.is_none() => Err(Failure::refused(
            format!("clients of Faktory could not show credentials: {address}"),
            "give --bearer-token: a client shows a token as its password",
        )),
        _ => Ok(()),
    }
}

/// The door behind an open listener.
pub(super) fn open(
    listening: Listening,
    url: &str,
    arguments: &ServeArguments,
    checks: &Arc<Checks>,
    stop: CancellationToken,
) -> Result<Door, Failure> {
    let client = pool::open_with(url, arguments, CONNECTIONS, STATEMENT_TIMEOUT)?;
    let limits = Limits { connections: arguments.max_clients as usize, ..Limits::default() };
    let mut faktory = Faktory::new(client.clone()).limits(limits).guard(Arc::new(ByPeer(Arc::clone(checks))));
    if let Some(file) = &arguments.bearer_token {
        for (name, (token, rights)) in token_lines(file)? {
            faktory = faktory.user(name, token, rights);
        }
    }
    let scheme = if matches!(listening, Listening::Tls(..)) { "tcp+tls" } else { "tcp" };
    let url = listening.address().map(|address| format!("{scheme}://{address}"));
    let stopped = stop.cancelled_owned();
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

/// Counts wrong passwords of a peer together with the dashboard.
struct ByPeer(Arc<Checks>);

impl Guard for ByPeer {
    fn wrong(&self, peer: Option<IpAddr>) -> Duration {
        self.0.delays.count(peer)
    }
}
