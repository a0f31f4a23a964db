//! The door for clients of Faktory: another listener, with the certificate and the tokens of the dashboard.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use uniqueue::Client;
use uniqueue_faktory::{Faktory, Guard};

use super::args::ServeArguments;
use super::authenticate::Checks;
use super::credentials::{Credentials, Rights, token_lines};
use super::listener::Listening;
use super::pool;
use crate::exit::Failure;

/// How long a statement may take. A mutation reads and changes many jobs, a page at a time.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// The connections to the database. Fetches and results of all clients share a few, pushes of unique jobs take one each.
const CONNECTIONS: u32 = 12;

/// Opens the listener that the arguments name. `None`: they name none.
pub(super) async fn listen(
    arguments: &ServeArguments,
    credentials: &Credentials,
    tls: Option<&TlsAcceptor>,
) -> Result<Option<Listening>, Failure> {
    let Some(address) = arguments.faktory else { return Ok(None) };
    if credentials.are_needed() && arguments.bearer_token.is_none() {
        return Err(Failure::refused(
            format!("clients of Faktory could not show credentials: {address}"),
            "give --bearer-token: a client shows a token as its password",
        ));
    }
    Listening::tcp("--faktory", address, credentials, tls).await.map(Some)
}

/// The open door.
pub(super) struct FaktoryDoor {
    listening: Listening,
    faktory: Faktory,
    client: Client,
}

impl FaktoryDoor {
    /// The door behind an open listener.
    pub(super) fn new(
        listening: Listening,
        url: &str,
        arguments: &ServeArguments,
        checks: &Arc<Checks>,
    ) -> Result<Self, Failure> {
        let client = pool::open_with(url, arguments, CONNECTIONS, STATEMENT_TIMEOUT)?;
        let mut faktory = Faktory::new(client.clone());
        if let Some(file) = &arguments.bearer_token {
            for (name, (token, rights)) in token_lines(file)? {
                faktory = faktory.user(
                    name,
                    token,
                    match rights {
                        Rights::All => uniqueue_faktory::Rights::All,
                        Rights::Read => uniqueue_faktory::Rights::Read,
                    },
                );
            }
        }
        let limits = uniqueue_faktory::Limits { connections: arguments.max_clients as usize, ..Default::default() };
        let faktory = faktory.limits(limits).guard(Arc::new(ByPeer(Arc::clone(checks))));
        Ok(Self { listening, faktory, client })
    }

    /// The address, with the port that was chosen.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.listening.address()
    }

    /// How clients write the scheme of its URL.
    pub(super) const fn scheme(&self) -> &'static str {
        if matches!(self.listening, Listening::Tls(..)) { "tcp+tls" } else { "tcp" }
    }

    /// Serves until the token is cancelled.
    pub(super) async fn serve(self, stop: CancellationToken) {
        let Self { listening, faktory, client } = self;
        let stopped = stop.cancelled_owned();
        match listening {
            Listening::Tcp(tcp) => faktory.serve(tcp, stopped).await,
            Listening::Tls(tcp, tls) => faktory.serve_with(tcp, move |stream| tls.accept(stream), stopped).await,
            // It is opened by its address.
            Listening::Unix(_) => {}
        }
        client.pool().close().await;
    }
}

/// Counts wrong passwords of a peer together with the dashboard.
struct ByPeer(Arc<Checks>);

impl Guard for ByPeer {
    fn wrong(&self, peer: Option<IpAddr>) -> Duration {
        self.0.delays.count(peer)
    }
}
