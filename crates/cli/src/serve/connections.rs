//! Connections of browsers, scripts and proxies: how many there may be, and how long each part of a request may take.
//!
//! ```text
//! accept ─▶ place (one of `most`) ─▶ head of a request ─▶ credentials ─▶ its body ─▶ answer ─▶ next request
//!                                   └── within `read` ──┘              └ likewise ┘
//! ```
//!
//! A client that sends its request slowly, or sends none, loses its connection. So it holds a place only for a time, and
//! the clients that wait for a place get it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::listener::Peer;

/// The most bytes of the head of a request, and of its body: a form with the ids of a page and args of 1 MB fits.
const MAX_HEAD: usize = 64 * 1024;
const MAX_BODY: usize = 4 * 1024 * 1024;

/// The time between two warnings that all connections are taken.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The limits of all connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The most open connections.
    pub(super) most: u32,
    /// How long a client may take to send the head of a request, from the end of the one before, and its body.
    pub(super) read: Duration,
}

/// Serves connections until the token is cancelled, and then waits for the requests that are under way.
pub(super) async fn serve<L>(
    mut listener: L,
    peer: fn(&L::Addr) -> Peer,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) where
    L: Listener,
{
    let places = Arc::new(Semaphore::new(limits.most as usize));
    let open = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.read).max_buf_size(MAX_HEAD);
    let mut warned_at: Option<Instant> = None;
    loop {
        if places.available_permits() == 0 && warned_at.is_none_or(|at| at.elapsed() > WARN_EVERY) {
            tracing::warn!("all connections are taken, and new ones wait; see --max-clients");
            warned_at = Some(Instant::now());
        }
        let accepted = tokio::select! {
            accepted = accept(&mut listener, &places) => accepted,
            () = stop.cancelled() => break,
        };
        let Some((stream, address, place)) = accepted else { break };
        let (router, peer) = (router.clone(), peer(&address));
        let service = service_fn(move |request| answer(router.clone(), peer, request));
        let connection = open.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended with an error");
            }
            drop(place);
        });
    }
    drop(listener);
    open.shutdown().await;
}

/// The next connection, once there is a place for it. Until then it waits in the queue of the operating system.
async fn accept<L: Listener>(
    listener: &mut L,
    places: &Arc<Semaphore>,
) -> Option<(L::Io, L::Addr, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    let (stream, address) = listener.accept().await;
    Some((stream, address, place))
}

/// Answers a request with the router.
async fn answer(mut router: Router, peer: Peer, request: Request<Incoming>) -> Result<Response, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(peer));
    router.call(request).await
}

/// Puts the limits of a body around a router. It stands behind the check of credentials: other clients send none.
pub(super) fn around(router: Router, limits: Limits) -> Router {
    router.layer(from_fn_with_state(limits, read_body))
}

async fn read_body(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match tokio::time::timeout(limits.read, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Ok(Err(_)) => {
            (StatusCode::PAYLOAD_TOO_LARGE, "the request is too large, or was not sent whole\n").into_response()
        }
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "the request was sent too slowly\n").into_response(),
    }
}
