//! The listeners of `serve`: TCP, TLS over TCP, or a Unix socket. The dashboard and each door have a listener of their own. They
//! limit the number of connections, and the time of each part of a request.
//!
//! ```text
//! accept ─▶ slot ─▶ TLS ─▶ head of a request ─▶ credentials ─▶ its body ─▶ answer ─▶ next request
//!                   └─────── within `read` ───┘              └ Checks ┘
//! ```
//!
//! A client that sends its request slowly, or sends none, loses its connection. When all slots are taken it loses it to the
//! next client at once: see [`Slots`].

use std::convert::Infallible;
use std::fs::Permissions;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
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
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::args::ServeArguments;
use super::authenticate::{Peer, is_probe};
use super::credentials::Credentials;
use super::slots::{Slot, Slots, Taken};
use crate::exit::Failure;

/// An open listener.
pub(super) enum Listening {
    Tcp(TcpListener),
    Tls(TcpListener, TlsAcceptor),
    Unix(UnixListener),
}

impl Listening {
    /// Opens the dashboard's, which the arguments name.
    pub(super) async fn open(
        arguments: &ServeArguments,
        credentials: &Credentials,
        tls: Option<&TlsAcceptor>,
    ) -> Result<Self, Failure> {
        if let Some(path) = &arguments.socket {
            let hint = "choose a path in a directory that this user can write";
            let failed = |error| Failure::environment(format!("cannot listen on {}", path.display()), hint, error);
            return Ok(Self::Unix(unix(path).await.map_err(failed)?));
        }
        Self::tcp("--listen", arguments.address(), credentials, tls).await
    }

    /// Opens a TCP listener. Refuses an address that other machines reach, unless requests need credentials. `option` is the
    /// one that names the address.
    pub(super) async fn tcp(
        option: &str,
        address: SocketAddr,
        credentials: &Credentials,
        tls: Option<&TlsAcceptor>,
    ) -> Result<Self, Failure> {
        if !address.ip().is_loopback() && !credentials.are_needed() {
            return Err(Failure::refused(
                format!("the address can be reached from other machines, and nothing asks for credentials: {address}"),
                "give --basic-auth, --bearer-token or --trusted-header, or listen on 127.0.0.1",
            ));
        }
        let failed = |error| {
            Failure::environment(format!("cannot listen on {address}"), format!("choose another {option}"), error)
        };
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        Ok(match tls {
            Some(tls) => Self::Tls(tcp, tls.clone()),
            None => Self::Tcp(tcp),
        })
    }

    /// Accepts a connection. It is read and written once TLS is negotiated.
    pub(super) async fn accept(&mut self) -> (Handshake, Peer) {
        match self {
            Self::Tcp(tcp) => {
                let (stream, address) = Listener::accept(tcp).await;
                (Box::pin(ready(Ok(Box::pin(stream) as AnyStream))), Some(address.ip()))
            }
            Self::Tls(tcp, tls) => {
                let (stream, address) = Listener::accept(tcp).await;
                let secured = tls.accept(stream);
                (Box::pin(async { Ok(Box::pin(secured.await?) as AnyStream) }), Some(address.ip()))
            }
            Self::Unix(unix) => {
                let (stream, _) = Listener::accept(unix).await;
                (Box::pin(ready(Ok(Box::pin(stream) as AnyStream))), None)
            }
        }
    }

    /// The address, with the port that was chosen.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) | Self::Tls(listener, _) => listener.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    /// The URL of the HTTP that it serves.
    pub(super) fn url(&self) -> Option<String> {
        let scheme = if matches!(self, Self::Tls(..)) { "https" } else { "http" };
        self.address().map(|address| format!("{scheme}://{address}/"))
    }
}

/// The byte stream of a connection: TCP, TLS over it, or a Unix socket.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

pub(super) type AnyStream = Pin<Box<dyn Stream>>;

/// Completes with the stream of a connection once TLS is negotiated.
pub(super) type Handshake = Pin<Box<dyn Future<Output = io::Result<AnyStream>> + Send>>;

/// Listens on a socket, in place of one that a process left behind.
async fn unix(path: &Path) -> io::Result<UnixListener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket {
        if tokio::net::UnixStream::connect(path).await.is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on it"));
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// TLS with the certificate that the arguments name, for every TCP listener. `None`: they name none.
pub(super) fn read_tls(arguments: &ServeArguments) -> Result<Option<TlsAcceptor>, Failure> {
    let (Some(cert), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) else { return Ok(None) };
    let hint = "both files are PEM: the chain with the server's certificate first, and its key";
    let unreadable = |file: &Path, error: &dyn std::fmt::Display| {
        Failure::refused(format!("cannot read {}: {error}", file.display()), hint)
    };
    let chain = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| unreadable(cert, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|error| Failure::refused(format!("the certificate cannot be used: {error}"), hint))?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

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

/// Answers HTTP requests with a router until the token is cancelled, and then finishes the requests that are under way.
pub(super) async fn serve(mut listening: Listening, router: Router, limits: Limits, stop: CancellationToken) {
    let mut connections = Connections::new(router, limits);
    loop {
        let (secured, peer) = tokio::select! {
            accepted = listening.accept() => accepted,
            () = stop.cancelled() => break,
        };
        // Without a slot the connection is closed.
        if let Some(taken) = connections.take() {
            connections.spawn(secured, peer, taken);
        }
    }
    drop(listening);
    connections.open.shutdown().await;
}

/// The connections of one listener.
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
