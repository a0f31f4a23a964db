//! The limits of connections.

use std::time::Duration;

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most connections of clients that have said `HELLO`. Default: 1,000. 64 others may be open besides.
    pub connections: usize,
    /// The most bytes of a command. Default: 16 MiB.
    pub message: usize,
    /// How long a TLS handshake and the greeting may take. Default: 10 s.
    pub greeting: Duration,
    /// How long a command may take to arrive, and a reply to be read. Default: 30 s.
    pub transfer: Duration,
    /// How long a connection may send nothing. A worker that beats may be silent on its other connections. Default: 1 h.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1_000,
            message: 16 * 1024 * 1024,
            greeting: Duration::from_secs(10),
            transfer: Duration::from_secs(30),
            idle: Duration::from_secs(3_600),
        }
    }
}
