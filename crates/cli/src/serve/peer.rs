//! The other end of a connection.

use std::net::{IpAddr, SocketAddr};

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
