//! The door for Open Job Spec: another listener, with the certificate, the credentials and the limits of the dashboard.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use uniqueue::{Client, Maintainer, MaintainerHandle};
use uniqueue_ojs::{Access, Ojs};

use super::args::ServeArguments;
use super::authenticate::{self, Checks};
use super::connections::Limits;
use super::credentials::{Credentials, Rights, User};
use super::listener::Listening;
use super::pool;
use crate::exit::Failure;

/// How long a statement may take. A batch of inserts takes longer than a page.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// The connections to the database.
const CONNECTIONS: u32 = 10;

/// How late a retry and the end of a reservation may be noticed.
const PROMOTE_INTERVAL: Duration = Duration::from_millis(150);
const RESCUE_INTERVAL: Duration = Duration::from_millis(500);

/// Opens the listener that the arguments name. `None`: they name none.
pub(super) async fn listen(
    arguments: &ServeArguments,
    credentials: &Credentials,
    tls: Option<&TlsAcceptor>,
) -> Result<Option<Listening>, Failure> {
    match arguments.ojs {
        Some(address) => Listening::tcp("--ojs", address, credentials, tls).await.map(Some),
        None => Ok(None),
    }
}

/// The open door, with the maintenance that its workers need.
pub(super) struct OjsDoor {
    listening: Listening,
    router: Router,
    limits: Limits,
    maintainer: MaintainerHandle,
    client: Client,
}

impl OjsDoor {
    /// The door behind an open listener.
    pub(super) async fn start(
        listening: Listening,
        url: &str,
        arguments: &ServeArguments,
        checks: &Arc<Checks>,
        limits: Limits,
    ) -> Result<Self, Failure> {
        let limits = Limits { words: uniqueue_ojs::in_ojs_words, ..limits };
        let client = pool::open_with(url, arguments, CONNECTIONS, STATEMENT_TIMEOUT)?;
        let maintainer = Maintainer::new(client.clone()).name("uniqueue serve --ojs");
        let maintainer = maintainer.promote_interval(PROMOTE_INTERVAL).rescue_interval(RESCUE_INTERVAL).start().await?;
        let router = Ojs::new(client.clone()).access(access).checks(arguments.checks()).start().await?;
        let router = authenticate::around(router, checks);
        Ok(Self { listening, router, limits, maintainer, client })
    }

    /// Its URL, with the port that was chosen.
    pub(super) fn url(&self) -> Option<String> {
        self.listening.address().map(|address| format!("{}://{address}/", self.listening.scheme()))
    }

    /// Serves until the token is cancelled, and ends the requests that are under way.
    pub(super) async fn serve(self, stop: CancellationToken) {
        let Self { listening, router, limits, maintainer, client } = self;
        listening.serve(router, limits, stop).await;
        maintainer.stop().await;
        client.pool().close().await;
    }
}

fn access(request: &Request) -> Access {
    match request.extensions().get::<User>() {
        Some(User { rights: Rights::All, .. }) => Access::All,
        Some(User { rights: Rights::Read, .. }) => Access::Read,
        None => Access::None,
    }
}
