//! Where requests come from: TCP, TLS over TCP, or a Unix socket. The dashboard and each door have a listener of their own.

use std::fs::Permissions;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_util::sync::CancellationToken;

use super::args::ServeArguments;
use super::connections::{Limits, serve};
use super::credentials::Credentials;
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
    async fn tcp(
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

    /// Opens that of a door, whose option has an address where the door is wanted.
    pub(super) async fn of_door(
        option: &str,
        address: Option<SocketAddr>,
        credentials: &Credentials,
        tls: Option<&TlsAcceptor>,
    ) -> Result<Option<Self>, Failure> {
        let Some(address) = address else { return Ok(None) };
        Self::tcp(option, address, credentials, tls).await.map(Some)
    }

    /// Answers HTTP requests with a router until the token is cancelled, and then finishes the requests that are under way.
    pub(super) async fn serve(self, router: Router, limits: Limits, stop: CancellationToken) {
        let of = |address: &SocketAddr| Some(address.ip());
        match self {
            Self::Tcp(tcp) => serve(tcp, of, |stream| ready(Ok(stream)), router, limits, stop).await,
            Self::Tls(tcp, tls) => serve(tcp, of, move |stream| tls.accept(stream), router, limits, stop).await,
            Self::Unix(unix) => {
                serve(unix, |_| None, |stream| ready(Ok(stream)), router, limits, stop).await;
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

/// A door beside the dashboard: its URL, with the port that was chosen, and the future that serves it.
pub(super) struct Door {
    pub(super) url: Option<String>,
    pub(super) serving: Pin<Box<dyn Future<Output = ()>>>,
}

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
    match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(cert), Some(key)) => acceptor(cert, key).map(Some),
        _ => Ok(None),
    }
}

/// Reads the certificate and its key.
fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, Failure> {
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
    Ok(TlsAcceptor::from(Arc::new(config)))
}
