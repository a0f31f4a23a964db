//! TLS over TCP. Handshakes run beside each other, so that a slow one delays no other.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use crate::failure::Failure;

/// How long a handshake may take, and how many there may be at once.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HANDSHAKES: usize = 256;

/// The pause after a connection could not be accepted, as when there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// A listener whose connections are encrypted.
pub(super) struct TlsListener {
    address: SocketAddr,
    accepted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    task: JoinHandle<()>,
}

impl TlsListener {
    /// Encrypts the connections of a listener.
    pub(super) fn new(tcp: TcpListener, cert: &Path, key: &Path) -> Result<Self, Failure> {
        let acceptor = acceptor(cert, key)?;
        let address =
            tcp.local_addr().map_err(|error| Failure::environment("cannot listen", "choose another address", error))?;
        let (sender, accepted) = mpsc::channel(16);
        let task = tokio::spawn(accept_all(tcp, acceptor, sender));
        Ok(Self { address, accepted, task })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.accepted.recv().await {
            Some(accepted) => accepted,
            // The task ends with this listener only.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.address()
    }
}

async fn accept_all(tcp: TcpListener, acceptor: TlsAcceptor, sender: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else { return };
        match tcp.accept().await {
            Ok((stream, peer)) => {
                let (handshake, sender) = (acceptor.accept(stream), sender.clone());
                tokio::spawn(async move {
                    match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
                        // A closed channel: the server stops.
                        Ok(Ok(stream)) => drop(sender.send((stream, peer)).await),
                        Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
                        Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

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
