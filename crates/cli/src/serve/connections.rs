//! Connections of browsers, scripts and proxies: how many there may be, and how long each part of a request may take.
//!
//! ```text
//! accept ─▶ slot ─▶ TLS ─▶ head of a request ─▶ credentials ─▶ its body ─▶ answer ─▶ next request
//!                   └─────── within `read` ───┘              └ Checks ┘
//! ```
//!
//! A client that sends its request slowly, or sends none, loses its connection. When all slots are taken it loses it to the
//! next client at once: see [`Slots`].

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::authenticate::{Peer, is_probe};
use super::slots::{Slot, Slots, Taken};

/// The most bytes of the head of a request, to which hyper adds its last read.
const MAX_HEAD: usize = 64 * 1024;

/// How long a client may take to read an answer, a page of 100 KB.
const READ_ANSWER: Duration = Duration::from_secs(60);

/// The time between two warnings that all slots are taken.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The limits of all connections, and the form of the answers beyond them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The most requests at once, and about the most open connections.
    pub(super) most: u32,
    /// Rewrites the answers of the server to those of the door. The dashboard's stay as they are.
    pub(super) words: fn(Response) -> Response,
    /// How long a client may take to send the head of a request, from the end of the one before.
    pub(super) read: Duration,
}

/// The state that the requests of all connections share.
struct Shared {
    router: Router,
    limits: Limits,
    /// A permit for each request that is worked on.
    requests: Semaphore,
}

/// The byte stream of a connection: TCP, TLS over it, or a Unix socket.
trait Stream: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

type AnyStream = Pin<Box<dyn Stream>>;

/// Completes with the stream of a connection once TLS is negotiated.
type Handshake = Pin<Box<dyn Future<Output = io::Result<AnyStream>> + Send>>;

/// Serves connections until the token is cancelled, and then waits for the requests that are under way. `secure` turns what
/// was accepted into what is read and written.
pub(super) async fn serve<L, S, F>(
    mut listener: L,
    peer: fn(&L::Addr) -> Peer,
    secure: impl Fn(L::Io) -> F,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) where
    L: Listener,
    S: AsyncRead + AsyncWrite + Send + 'static,
    F: Future<Output = io::Result<S>> + Send + 'static,
{
    let mut connections = Connections::new(router, limits);
    loop {
        let (stream, address) = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        // Without a slot the connection is closed.
        let Some(taken) = connections.take() else { continue };
        let secured = secure(stream);
        connections.spawn(Box::pin(async { Ok(Box::pin(secured.await?) as AnyStream) }), peer(&address), taken);
    }
    drop(listener);
    connections.open.shutdown().await;
}

/// The connections of one listener. Its functions name no type of stream, so that HTTP is compiled once.
struct Connections {
    shared: Arc<Shared>,
    slots: Arc<Slots>,
    open: GracefulShutdown,
    http: http1::Builder,
    warned_at: Option<Instant>,
}

impl Connections {
    fn new(router: Router, limits: Limits) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(limits.read).max_buf_size(MAX_HEAD);
        let shared = Arc::new(Shared { router, limits, requests: Semaphore::new(limits.most as usize) });
        Self { shared, slots: Arc::default(), open: GracefulShutdown::new(), http, warned_at: None }
    }

    /// Takes a slot for a connection. `None`: there is none.
    fn take(&mut self) -> Option<Taken> {
        let (taken, was_full) = self.slots.take(self.shared.limits.most as usize)?;
        if was_full && self.warned_at.is_none_or(|at| at.elapsed() > WARN_EVERY) {
            tracing::warn!("all connections are taken: new ones displace those that wait; see --max-clients");
            self.warned_at = Some(Instant::now());
        }
        Some(taken)
    }

    fn spawn(&self, secured: Handshake, peer: Peer, taken: Taken) {
        let (shared, slot) = (Arc::clone(&self.shared), Arc::clone(&taken.slot));
        let read = shared.limits.read;
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(Arc::clone(&slot));
            answer(Arc::clone(&shared), request)
        });
        let (http, watcher) = (self.http.clone(), self.open.watcher());
        tokio::spawn(async move {
            let connection = async {
                let stream = match timeout(read, secured).await {
                    Ok(secured) => secured?,
                    Err(_) => return Err("the TLS handshake took too long".into()),
                };
                watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            };
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(error = ?error.to_string(), "a connection ended with an error");
                },
                () = taken.slot.lost(read + READ_ANSWER) => {}
            }
            drop(taken);
        });
    }
}

/// Answers a request in the words of its door.
async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response, Infallible> {
    let words = shared.limits.words;
    route(shared, request).await.map(words)
}

/// Answers a request with the router.
async fn route(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response, Infallible> {
    let mut router = shared.router.clone();
    if is_probe(request.uri()) {
        // A probe needs no permit, and its connection can lose its slot meanwhile.
        return router.call(request.map(Body::new)).await;
    }
    let permit = timeout(shared.limits.read, shared.requests.acquire()).await;
    let slot = request.extensions().get::<Arc<Slot>>().cloned();
    match (permit, slot.and_then(|slot| slot.work())) {
        (Ok(Ok(_permit)), Some(_working)) => router.call(request.map(Body::new)).await,
        _ => {
            let headers = [(header::RETRY_AFTER, "5"), (header::CONNECTION, "close")];
            Ok((StatusCode::SERVICE_UNAVAILABLE, headers, "too many requests are worked on\n").into_response())
        }
    }
}
