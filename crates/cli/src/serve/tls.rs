//! TLS over TCP. Each connection makes its handshake in its own task, so that a slow one delays no other.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::args::ServeArguments;
use crate::exit::Failure;

/// TLS with the certificate that the arguments name, for every TCP listener. `None`: they name none.
pub(super) fn read(arguments: &ServeArguments) -> Result<Option<TlsAcceptor>, Failure> {
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
