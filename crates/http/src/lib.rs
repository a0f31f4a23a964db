//! The checks of requests that the HTTP routers of uniqueue share: the dashboard with its metrics and health checks, and
//! Open Job Spec. Each router has this layer, also in an application that mounts it.
//!
//! ```text
//! request ─▶ host name ─▶ pages of browsers ─▶ bytes and time of the body ─▶ router ─▶ headers of the answer
//! ```
//!
//! A page whose name leads to this machine (DNS rebinding) has an origin of its own, so only the host name tells it from
//! other clients: browsers send no `Sec-Fetch-Site` to such a name.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower_http::csrf::{CsrfLayer, ProtectionError};

/// The most bytes of a body: a form with the ids of a page, args of 1 MB, or a batch of 1,000 jobs of 4 kB.
pub const MAX_BODY: usize = 4 * 1024 * 1024;

/// The most bytes of a body that is read without a permit, and how many larger ones are read at once.
const SMALL_BODY: u64 = 64 * 1024;
const LARGE_BODIES: usize = 8;

/// The names of the local machine.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Headers of every answer. Those that the router set itself stay.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The checks around a router. Without further options only requests to the names of the local machine and to addresses
/// are answered, and those that a page of another origin sends are refused.
///
/// ```
/// use axum::Router;
/// use uniqueue_http::Checks;
///
/// let router: Router = Checks::new().host("admin.example.com").around(Router::new());
/// ```
#[derive(Clone, Debug)]
#[must_use = "checks do nothing until they stand around a router"]
pub struct Checks {
    hosts: Option<Vec<String>>,
    origins: Vec<String>,
    allows_pages: bool,
    request_timeout: Duration,
}

impl Default for Checks {
    fn default() -> Self {
        let request_timeout = Duration::from_secs(15);
        Self { hosts: Some(Vec::new()), origins: Vec::new(), allows_pages: true, request_timeout }
    }
}

impl Checks {
    /// The checks without further options.
    pub fn new() -> Self {
        Self::default()
    }

    /// A host name by which the server is reached, without the port. Requests for other names are refused with 421, which
    /// prevents DNS rebinding. Default: `localhost` and every address, which stay allowed.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.get_or_insert_default().push(host.into().to_ascii_lowercase());
        self
    }

    /// Answers to every host name, for an application that checks the name itself.
    pub fn any_host(mut self) -> Self {
        self.hosts = None;
        self
    }

    /// An origin, such as `https://admin.example.com`, from which changes are accepted. Needed only behind a proxy that
    /// changes the `Host` header, for browsers that do not send `Sec-Fetch-Site`.
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Refuses what any page in a browser sends, those of the same origin among them: for an API that has no pages.
    pub fn no_pages(mut self) -> Self {
        self.allows_pages = false;
        self
    }

    /// How long a client may take to send a body of at most [`MAX_BODY`] bytes. Default: 15 s.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Puts the checks around a router.
    pub fn around(self, router: Router) -> Router {
        let mut csrf = CsrfLayer::new();
        for origin in &self.origins {
            match csrf.clone().add_trusted_origin(origin) {
                Ok(trusting) => csrf = trusting,
                Err(error) => tracing::error!(?origin, %error, "an origin is ignored"),
            }
        }
        let csrf = csrf.with_rejection_response(|_: ProtectionError| {
            refusal(StatusCode::FORBIDDEN, "a page of another origin sent the request")
        });
        let state = Arc::new((self, Semaphore::new(LARGE_BODIES)));
        router
            .layer(from_fn_with_state(Arc::clone(&state), read_body))
            .layer(csrf)
            .layer(from_fn_with_state(state, check))
    }

    /// The refusal of a request by its head.
    fn refused(&self, request: &Request) -> Option<Response> {
        if self.hosts.as_ref().is_some_and(|hosts| !is_for(request, hosts)) {
            let why = "this name is not one of the server's hosts: name it with --host, or with Checks::host";
            return Some(refusal(StatusCode::MISDIRECTED_REQUEST, why));
        }
        let site = request.headers().get("sec-fetch-site");
        let is_of_a_page = site.is_some_and(|site| site != "none") || request.headers().contains_key(header::ORIGIN);
        let why = "requests of pages in a browser are refused: this API is for services";
        (!self.allows_pages && is_of_a_page).then(|| refusal(StatusCode::FORBIDDEN, why))
    }
}

/// Why a request was refused, in the extensions of the answer. A router with another form of errors words it anew.
#[derive(Clone, Copy, Debug)]
pub struct Refusal(pub &'static str);

fn refusal(status: StatusCode, why: &'static str) -> Response {
    let mut response = (status, format!("{why}\n")).into_response();
    response.extensions_mut().insert(Refusal(why));
    response
}

/// Checks the head of a request, and completes the headers of its answer.
async fn check(State(state): State<Arc<(Checks, Semaphore)>>, request: Request, next: Next) -> Response {
    let mut response = match state.0.refused(&request) {
        Some(refused) => refused,
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Whether a request names one of these hosts, the local machine or an address, wherever it names a host.
fn is_for(request: &Request, hosts: &[String]) -> bool {
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let host = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
    let mut names =
        [authority, host].into_iter().flatten().map(|name| without_port(name).to_ascii_lowercase()).peekable();
    // DNS rebinding needs a name. Probes and scrapes come to an address.
    names.peek().is_some()
        && names.all(|name| LOCAL.contains(&name.as_str()) || is_address(&name) || hosts.contains(&name))
}

/// Reads the body, so that a slow client takes no connection to the database, and few large bodies are in memory at once.
async fn read_body(State(state): State<Arc<(Checks, Semaphore)>>, request: Request, next: Next) -> Response {
    if [Method::GET, Method::HEAD].contains(request.method()) {
        return next.run(request.map(|_| Body::empty())).await;
    }
    let (Checks { request_timeout, .. }, large) = &*state;
    let (head, body) = request.into_parts();
    let is_small = body.size_hint().upper().is_some_and(|most| most <= SMALL_BODY);
    let read = async {
        let _permit = if is_small { None } else { large.acquire().await.ok() };
        to_bytes(body, MAX_BODY).await
    };
    match timeout(*request_timeout, read).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Ok(Err(_)) => refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 4 MiB, or was not sent whole"),
        Err(_) => refusal(StatusCode::REQUEST_TIMEOUT, "the request was sent too slowly"),
    }
}

/// Whether a host is an address of IPv4, or of IPv6 in brackets.
fn is_address(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    }
}

/// The host of an authority.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_no_name() {
        assert!(is_address("10.1.2.3") && is_address("[fd00::1]"));
        for name in ["fd00::1", "10.1.2.3.evil.example", "0x0a010203", "10.1", "[10.1.2.3]", ""] {
            assert!(!is_address(name), "{name}");
        }
    }

    #[test]
    fn a_port_is_no_part_of_the_name() {
        assert_eq!(without_port("localhost:80"), "localhost");
        assert_eq!(without_port("[::1]:80"), "[::1]");
        assert_eq!(without_port("[::1]"), "[::1]");
        assert_eq!(without_port("evil.example:80@localhost"), "evil.example:80@localhost");
    }
}
