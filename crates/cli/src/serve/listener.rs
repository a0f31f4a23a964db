//! Where requests come from: TCP, TLS over TCP, or a Unix socket.

use std::fs::Permissions;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

use super::args::ServeArguments;
use super::tls;
use crate::failure::Failure;

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// Its address. `None` on a Unix socket.
    pub(super) ip: Option<IpAddr>,
}

impl Peer {
    pub(super) const fn of(address: SocketAddr) -> Self {
        Self { ip: Some(address.ip()) }
    }

    pub(super) const fn on_a_socket() -> Self {
        Self { ip: None }
    }
}

/// An open listener.
pub(super) enum Listening {
    Tcp(TcpListener),
    Tls(TcpListener, TlsAcceptor),
    Unix(UnixListener),
}

impl Listening {
    /// Opens the one that the arguments name.
    pub(super) async fn open(arguments: &ServeArguments) -> Result<Self, Failure> {
        if let Some(path) = &arguments.socket {
            let hint = "choose a path in a directory that this user can write";
            let failed = |error| Failure::environment(format!("cannot listen on {}", path.display()), hint, error);
            return Ok(Self::Unix(unix(path).await.map_err(failed)?));
        }
        let address = arguments.address();
        let failed =
            |error| Failure::environment(format!("cannot listen on {address}"), "choose another --listen", error);
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        match (&arguments.tls_cert, &arguments.tls_key) {
            (Some(cert), Some(key)) => Ok(Self::Tls(tcp, tls::acceptor(cert, key)?)),
            _ => Ok(Self::Tcp(tcp)),
        }
    }

    /// The address, with the port that was chosen.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) | Self::Tls(listener, _) => listener.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    pub(super) const fn scheme(&self) -> &'static str {
        match self {
            Self::Tls(..) => "https",
            Self::Tcp(_) | Self::Unix(_) => "http",
        }
    }
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
