//! The arguments of `uniqueue serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use uniqueue_http::Checks;

use crate::prelude::*;

/// Serve the dashboard, with metrics and health checks.
///
/// With --places it serves all places of a map, each with its own pages, and pages over all of them.
///
/// Without credentials it listens on this machine only, and every user of the machine can make every change. Another
/// address needs --basic-auth, --bearer-token or --trusted-header. It runs until Ctrl-C or SIGTERM.
///
/// Examples:
///   uniqueue serve --demo                                    see it, nothing to set up
///   uniqueue serve --database-url postgres://localhost/app --port 8080
///   uniqueue serve --hash-password anna >> users             asks for the password
///   uniqueue serve --listen 0.0.0.0:4180 --basic-auth users --host queue.example.com
///   uniqueue serve --socket /run/uniqueue/http --trusted-header X-Forwarded-User
///   uniqueue serve --read-only
///   uniqueue serve --faktory 127.0.0.1:7419                  FAKTORY_URL=tcp://127.0.0.1:7419
///   uniqueue serve --ojs 127.0.0.1:8080                      Open Job Spec for services in any language
///
/// /metrics has the state of the queue for Prometheus, and needs credentials where pages do: a line NAME:TOKEN:read. /health/live and /health/ready
/// need none. With --json it prints {"url", "socket", "faktory", "ojs", "read_only"} when it listens.
///
/// Exit codes:
///   0    stopped by Ctrl-C or SIGTERM, or the line is printed
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ServeArguments {
    /// The address and port to listen on; port 0 chooses one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4180", conflicts_with = "socket")]
    pub(super) listen: SocketAddr,

    /// The port to listen on, in place of that of --listen
    #[arg(long, value_name = "PORT", conflicts_with = "socket")]
    pub(super) port: Option<u16>,

    /// Listen on a Unix socket instead, which this user and the group can use
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,

    /// A host name by which browsers and clients reach it; repeat it. Local names and addresses are always allowed
    #[arg(long, value_name = "NAME")]
    pub(super) host: Vec<String>,

    /// Refuse every change, in the database as well
    #[arg(long)]
    pub(super) read_only: bool,

    /// The certificate chain in PEM, for https
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "socket")]
    pub(super) tls_cert: Option<PathBuf>,

    /// The private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,

    /// Also serve clients and workers of Faktory at this address, such as 127.0.0.1:7419. A token is their password, and the
    /// certificate is the same
    #[arg(long, value_name = "ADDRESS", conflicts_with = "read_only")]
    pub(super) faktory: Option<SocketAddr>,

    /// Also speak Open Job Spec over HTTP at this address, such as 127.0.0.1:8080, with the same credentials and certificate
    #[arg(long, value_name = "ADDRESS", conflicts_with = "read_only")]
    pub(super) ojs: Option<SocketAddr>,

    /// Users and their hashed passwords, one NAME:HASH a line, as --hash-password prints it. A user of a line NAME:HASH:read may
    /// only read
    #[arg(long, value_name = "FILE", help_heading = "Credentials")]
    pub(super) basic_auth: Option<PathBuf>,

    /// Tokens for scripts, one NAME:TOKEN a line, of at least 16 characters each. A token of a line NAME:TOKEN:read may only read
    #[arg(long, value_name = "FILE", help_heading = "Credentials")]
    pub(super) bearer_token: Option<PathBuf>,

    /// The header in which a proxy names the user that it has authenticated, such as X-Forwarded-User
    #[arg(long, value_name = "NAME", help_heading = "Credentials")]
    pub(super) trusted_header: Option<String>,

    /// The addresses of the proxy, such as 10.0.0.0/8; repeat it. The header of other addresses is ignored
    #[arg(long, value_name = "CIDR", requires = "trusted_header", help_heading = "Credentials")]
    pub(super) trusted_proxy: Vec<IpNet>,

    /// Only print the line for --basic-auth of this user, whose password is read from standard input
    #[arg(long, value_name = "USER", help_heading = "Credentials")]
    pub(super) hash_password: Option<String>,

    /// Start a throw-away database with jobs of all kinds, and serve that
    #[arg(long)]
    pub(super) demo: bool,

    /// The largest number of open connections of browsers and scripts. More of them displace those without a request
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(super) max_clients: u32,

    /// How long a client may take to send the head of a request, or its body; an idle connection ends after it
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub(super) request_timeout: DurationArgument,

    /// The largest number of connections to the database
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=100))]
    pub(super) connections: u32,

    /// How long a statement may take; an answer that was cut says so
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub(super) statement_timeout: DurationArgument,

    #[command(flatten)]
    pub(super) database: DatabaseArguments,
}

impl ServeArguments {
    /// The address to listen on.
    pub(super) fn address(&self) -> SocketAddr {
        let mut address = self.listen;
        address.set_port(self.port.unwrap_or(address.port()));
        address
    }

    /// The checks of every HTTP router.
    pub(super) fn checks(&self) -> Checks {
        let checks = Checks::new().request_timeout(self.request_timeout.0);
        self.host.iter().fold(checks, |checks, host| checks.host(host))
    }
}
