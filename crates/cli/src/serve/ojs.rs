//! The door for Open Job Spec: another listener, with the certificate, the credentials and the limits of the dashboard. It does
//! the maintenance that its workers need.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use tokio_util::sync::CancellationToken;
use uniqueue::Maintainer;
use uniqueue_faktory::Rights;
use uniqueue_ojs::{Access, Ojs};

use super::args::ServeArguments;
use super::authenticate::{self, Checks};
use super::connections::Limits;
use super::credentials::User;
use super::listener::{Door, Listening};
use super::pool;
use crate::exit::Failure;

/// How long a statement may take. A batch of inserts takes longer than a page.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// The connections to the database.
const CONNECTIONS: u32 = 10;

/// How late a retry and the end of a reservation may be noticed.
const PROMOTE_INTERVAL: Duration = Duration::from_millis(150);
const RESCUE_INTERVAL: Duration = Duration::from_millis(500);

/// The door behind an open listener.
pub(super) async fn open(
    listening: Listening,
    url: &str,
    arguments: &ServeArguments,
    checks: &Arc<Checks>,
    limits: Limits,
    stop: CancellationToken,
) -> Result<Door, Failure> {
    let limits = Limits { words: uniqueue_ojs::in_ojs_words, ..limits };
    let client = pool::open_with(url, arguments, CONNECTIONS, STATEMENT_TIMEOUT)?;
    let maintainer = Maintainer::new(client.clone()).name("uniqueue serve --ojs");
    let maintainer = maintainer.promote_interval(PROMOTE_INTERVAL).rescue_interval(RESCUE_INTERVAL).start().await?;
    let router = Ojs::new(client.clone()).access(access).checks(arguments.checks()).start().await?;
    let router = authenticate::around(router, checks);
    let url = listening.url();
    let serving = Box::pin(async move {
        listening.serve(router, limits, stop).await;
        maintainer.stop().await;
        client.pool().close().await;
    });
    Ok(Door { url, serving })
}

fn access(request: &Request) -> Access {
    match request.extensions().get::<User>() {
        Some(User { rights: Rights::All, .. }) => Access::All,
        Some(User { rights: Rights::Read, .. }) => Access::Read,
        None => Access::None,
    }
}
