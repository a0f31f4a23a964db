//! The layers around every route: the headers of an answer, the check of the host name, the check of the origin, and
//! the check of rights.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;
use tower_http::csrf::CsrfLayer;

use crate::access::Needs;
use crate::app::App;
use crate::failure::{Failure, Told};
use crate::failure_page::with_navigation;
use crate::page::Page;

/// How long a page may take. The policy lab takes half of it.
const SLOWEST: Duration = Duration::from_secs(10);
/// How long a page may take while samples of the queue take too long. A look-up takes less.
const SLOW: Duration = Duration::from_millis(2_500);
/// How long a page may take while no connection can be had.
const OUTAGE: Duration = Duration::from_secs(1);

/// The names of the local machine.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Headers of every answer. Those that the route set itself stay.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// A gate of one route: what it needs, and who decides what a request has.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) app: Arc<App>,
    pub(crate) needs: Needs,
}

/// Lets a request through that has what its route needs, and leaves its access in the extensions.
pub(crate) async fn gate(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    if gate.needs == Needs::Nothing {
        return next.run(Request::from_parts(parts, body)).await;
    }
    let access = gate.app.access_of(&parts);
    if !access.meets(gate.needs) {
        return Failure::Forbidden.into_response();
    }
    parts.extensions.insert(access);
    let mut asked = parts.clone();
    let response = answered(&gate.app, &asked.method, next.run(Request::from_parts(parts, body))).await;
    if matches!(gate.needs, Needs::Right(_)) {
        gate.app.sampler.next_round();
    }
    if response.extensions().get::<Told>().is_some()
        && let Ok(mut page) = Page::from_request_parts(&mut asked, &gate.app).await
    {
        if asked.method != Method::GET {
            // A browser cannot be sent back to the path of a form.
            page.here = String::new();
        }
        return with_navigation(&page, response);
    }
    response
}

/// The answer to a request, within the time that a page may take. A change is waited for: its answer says whether it was made.
async fn answered(app: &App, method: &Method, answer: impl Future<Output = Response>) -> Response {
    if *method != Method::GET {
        return answer.await;
    }
    let failure = app.sampler.failure();
    let most = match &failure {
        Some(failure) if failure.is_slow => SLOW,
        Some(_) => OUTAGE,
        None if app.sampler.is_late() => SLOW,
        None => SLOWEST,
    };
    let response = match timeout(most, answer).await {
        Ok(response) => response,
        Err(_) => Failure::Away(failure.map(|failure| failure.why)).into_response(),
    };
    if response.status() == StatusCode::SERVICE_UNAVAILABLE && app.all_places().is_none() {
        // The sampler finds out whether the next page needs to wait.
        app.sampler.want();
    }
    response
}

/// Puts the checks that do not depend on the route around a router. `None`: every host name is allowed.
pub(crate) fn around(router: Router, hosts: Option<Vec<String>>, origins: &[String], csp: &str) -> Router {
    let mut csrf = CsrfLayer::new();
    for origin in origins {
        match csrf.clone().add_trusted_origin(origin) {
            Ok(trusting) => csrf = trusting,
            Err(error) => tracing::error!(?origin, %error, "an origin of the dashboard is ignored"),
        }
    }
    let csp = HeaderValue::from_str(csp).unwrap_or_else(|_| {
        tracing::error!("the Content-Security-Policy is not a valid header: nothing is allowed");
        HeaderValue::from_static("default-src 'none'")
    });
    let router = router.layer(csrf);
    let router = match hosts {
        Some(hosts) => router.layer(from_fn_with_state(Arc::new(hosts), check_host)),
        None => router,
    };
    router.layer(from_fn(move |request: Request, next: Next| {
        let csp = csp.clone();
        async move { with_headers(next.run(request).await, csp) }
    }))
}

fn with_headers(mut response: Response, csp: HeaderValue) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(csp);
    response
}

/// Refuses a request for a host name that is not the dashboard's.
async fn check_host(State(hosts): State<Arc<Vec<String>>>, request: Request, next: Next) -> Response {
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let host = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
    // Both must be right, where there are both.
    let names: Vec<_> =
        [authority, host].into_iter().flatten().map(|name| without_port(name).to_ascii_lowercase()).collect();
    // DNS rebinding needs a name. Probes and scrapes come to an address.
    let is_allowed = |name: &String| LOCAL.contains(&name.as_str()) || is_address(name) || hosts.contains(name);
    let is_known = !names.is_empty() && names.iter().all(is_allowed);
    if is_known {
        return next.run(request).await;
    }
    let mut response = "this name is not one of the dashboard's hosts; see Web::host\n".into_response();
    *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
    response
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
