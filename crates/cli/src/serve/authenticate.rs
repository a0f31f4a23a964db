//! The check of a request's credentials, before any route.
//!
//! A request that shows none, or wrong ones, gets no further than `/health`. The user's name goes on with the request.
//! Hashing a password takes tens of milliseconds, so right ones are remembered by a digest, and few are hashed at once.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::Semaphore;

use super::credentials::{Credentials, Rights, User, digest};
use super::listener::Peer;
use super::password;

/// How many passwords are hashed at once.
const HASHES: usize = 2;

/// How many right passwords are remembered.
const REMEMBERED: usize = 1_000;

/// Paths that need no credentials: the probes of a process manager.
const OPEN: [&str; 2] = ["/health/live", "/health/ready"];

struct Checks {
    credentials: Credentials,
    hashes: Semaphore,
    /// Digests of the user names and passwords that were right.
    right: Mutex<HashSet<[u8; 32]>>,
}

/// Puts the check around a router.
pub(super) fn around(router: Router, credentials: Credentials) -> Router {
    let (hashes, right) = (Semaphore::new(HASHES), Mutex::default());
    router.layer(from_fn_with_state(Arc::new(Checks { credentials, hashes, right }), check))
}

async fn check(State(checks): State<Arc<Checks>>, mut request: Request, next: Next) -> Response {
    if OPEN.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let peer = request.extensions().get::<ConnectInfo<Peer>>().and_then(|info| info.0.ip);
    match checks.user(request.headers(), peer).await {
        Some(user) => {
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        None => checks.refuse(),
    }
}

impl Checks {
    async fn user(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<User> {
        if !self.credentials.are_needed() {
            return Some(User { name: None, rights: Rights::All });
        }
        match self.named_by_proxy(headers, peer) {
            Some(name) => Some(User { name: Some(name), rights: Rights::All }),
            None => self.by_authorization(headers).await,
        }
    }

    /// The name in the trusted header, of a request that comes from the proxy.
    fn named_by_proxy(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<String> {
        let Credentials { header, proxies, .. } = &self.credentials;
        let header = header.as_ref()?;
        let is_proxy = match peer {
            // An address of IPv4 can come in the form of IPv6.
            Some(peer) => proxies.iter().any(|proxy| proxy.contains(&peer.to_canonical())),
            // On a Unix socket the file's mode says who can send.
            None => true,
        };
        let mut values = headers.get_all(header).iter();
        let name = values.next()?.to_str().ok()?;
        // A second header could be the client's own, which the proxy passed on.
        (is_proxy && values.next().is_none() && !name.is_empty()).then(|| name.to_owned())
    }

    async fn by_authorization(&self, headers: &HeaderMap) -> Option<User> {
        let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, rest) = value.split_once(' ')?;
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.credentials.tokens.as_ref()?.get(&digest(rest.trim().as_bytes())).cloned();
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let passwords = self.credentials.passwords.as_ref()?;
        let decoded = STANDARD.decode(rest.trim()).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        let name = std::str::from_utf8(&decoded[..colon]).ok()?.to_owned();
        let known = digest(&decoded);
        if self.right.lock().unwrap_or_else(PoisonError::into_inner).contains(&known) {
            let rights = passwords.get(&name)?.1;
            return Some(User { name: Some(name), rights });
        }
        // An unknown user takes as long as a wrong password, so that names cannot be found out.
        let (hash, rights) = passwords.get(&name).or_else(|| passwords.values().next())?.clone();
        let is_known = passwords.contains_key(&name);
        let permit = self.hashes.acquire().await.ok()?;
        let hashing = tokio::task::spawn_blocking(move || password::is_right(&decoded[colon + 1..], &hash));
        let is_right = hashing.await.unwrap_or(false) && is_known;
        drop(permit);
        if !is_right {
            tracing::warn!(user = ?name, "a wrong password or an unknown user");
            return None;
        }
        let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        if right.len() >= REMEMBERED {
            right.clear();
        }
        right.insert(known);
        Some(User { name: Some(name), rights })
    }

    fn refuse(&self) -> Response {
        let mut response = (StatusCode::UNAUTHORIZED, "credentials are needed\n").into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.credentials.passwords.is_some() {
            let challenge = HeaderValue::from_static("Basic realm=\"uniqueue\", charset=\"UTF-8\"");
            headers.append(header::WWW_AUTHENTICATE, challenge);
        }
        if self.credentials.tokens.is_some() {
            headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"uniqueue\""));
        }
        response
    }
}
