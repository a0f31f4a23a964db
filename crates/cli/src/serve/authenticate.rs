//! The check of a request's credentials, before any route.
//!
//! A request that shows none, or wrong ones, gets no further than `/health`. The user's name goes on with the request.
//! Hashing a password takes tens of milliseconds, so few are hashed at once, and the answer is remembered by a digest. A
//! peer that sends many wrong ones waits for each answer, and one of its passwords is hashed at a time. Right passwords that
//! are remembered are not delayed.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::time::sleep;
use uniqueue_faktory::Rights;

use super::credentials::{Checker, Credentials, User, digest};
use super::delays::Delays;
use super::slots::Slot;

/// How many passwords are hashed at once.
const HASHES: usize = 2;

/// How many right passwords are remembered, and how many wrong ones.
const REMEMBERED: usize = 1_000;

/// How many passwords of one delayed peer wait for their turn or their answer, and how long an answer waits at most.
const WAITING: usize = 8;
const LONGEST_DELAY: Duration = Duration::from_secs(1);

/// The most bytes of a name in the log. A longer one is no user's.
const MAX_NAME: usize = 100;

/// The address of the other end of a connection. `None` on a Unix socket.
pub(super) type Peer = Option<IpAddr>;

/// Whether a request is a probe of a process manager, which needs no credentials.
pub(super) fn is_probe(uri: &Uri) -> bool {
    ["/health/live", "/health/ready", "/ojs/v1/health"].contains(&uri.path())
}

/// The check, which all doors share: a peer's wrong credentials count together.
pub(super) struct Checks {
    pub(super) credentials: Credentials,
    checker: Checker,
    pub(super) delays: Delays,
    known: Mutex<Known>,
}

/// Digests of user names with their passwords. A script that goes on with a password that was changed is not hashed each time,
/// and delays no other client at its address.
#[derive(Default)]
struct Known {
    right: HashSet<[u8; 32]>,
    wrong: HashSet<[u8; 32]>,
}

impl Known {
    fn add(&mut self, digest: [u8; 32], is_right: bool) {
        let known = if is_right { &mut self.right } else { &mut self.wrong };
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(digest);
    }
}

/// Whether a request may go on.
enum Admission {
    User(User),
    Refused,
    /// A wrong password of a peer that sent many. It should wait this long before the next one.
    TooOften(Duration),
}

/// Puts the check around a router.
pub(super) fn around(router: Router, checks: &Arc<Checks>) -> Router {
    router.layer(from_fn_with_state(Arc::clone(checks), check))
}

async fn check(State(checks): State<Arc<Checks>>, mut request: Request, next: Next) -> Response {
    if is_probe(request.uri()) {
        return next.run(request).await;
    }
    let peer = request.extensions().get::<ConnectInfo<Peer>>().and_then(|info| info.0);
    match checks.verdict(request.headers(), peer).await {
        Admission::User(user) => {
            if let Some(slot) = request.extensions().get::<Arc<Slot>>() {
                slot.trust();
            }
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        Admission::Refused => checks.refuse(),
        Admission::TooOften(delay) => too_often(delay),
    }
}

impl Checks {
    /// The check of these credentials.
    pub(super) fn new(credentials: Credentials) -> Self {
        Self { credentials, checker: Checker::new(HASHES), delays: Delays::default(), known: Mutex::default() }
    }

    async fn verdict(self: &Arc<Self>, headers: &HeaderMap, peer: Option<IpAddr>) -> Admission {
        if !self.credentials.are_needed() {
            return Admission::User(User { name: None, rights: Rights::All });
        }
        match self.named_by_proxy(headers, peer) {
            Some(name) => Admission::User(User { name: Some(name), rights: Rights::All }),
            None => self.by_authorization(headers, peer).await.unwrap_or(Admission::Refused),
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

    /// `None`: there is no header that can be read.
    async fn by_authorization(self: &Arc<Self>, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<Admission> {
        let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, rest) = value.split_once(' ')?;
        if scheme.eq_ignore_ascii_case("bearer") {
            let token = digest(rest.trim().as_bytes());
            return self.credentials.tokens.as_ref()?.get(&token).cloned().map(Admission::User);
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let decoded = STANDARD.decode(rest.trim()).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        let name = std::str::from_utf8(&decoded[..colon]).ok()?;
        self.by_password(name, &decoded[colon + 1..], digest(&decoded), peer).await
    }

    /// `None`: no passwords are used here.
    async fn by_password(
        self: &Arc<Self>,
        name: &str,
        password: &[u8],
        digest: [u8; 32],
        peer: Option<IpAddr>,
    ) -> Option<Admission> {
        let passwords = self.credentials.passwords.as_ref()?;
        // An unknown user takes as long as a wrong password, so that names cannot be found out.
        let (hash, rights) = passwords.get(name).or_else(|| passwords.values().next())?.clone();
        let user = User { name: Some(name.to_owned()), rights };
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.right.contains(&digest) {
                return Some(Admission::User(user));
            }
            if known.wrong.contains(&digest) {
                return Some(Admission::Refused);
            }
        }
        let is_user = passwords.contains_key(name);
        let checked = Arc::clone(self).hashed(user, is_user, (password.to_vec(), hash), digest, peer);
        // Goes on when the client hangs up: the next connection must neither get the peer's turn at once, nor the answer.
        tokio::spawn(checked).await.ok()?
    }

    /// The answer to a password and the hash that it should have.
    async fn hashed(
        self: Arc<Self>,
        user: User,
        is_user: bool,
        (password, hash): (Vec<u8>, String),
        digest: [u8; 32],
        peer: Option<IpAddr>,
    ) -> Option<Admission> {
        let mut turn = None;
        let permit = loop {
            let permit = self.checker.permit().await?;
            match self.delays.turn(peer) {
                Some((delay, of_peer)) if turn.is_none() => {
                    drop(permit);
                    // Few wait, because each has a slot among the requests. Two more know the turn: this request and the delays.
                    if Arc::strong_count(&of_peer) >= WAITING + 2 {
                        return Some(Admission::TooOften(delay));
                    }
                    turn = Some(of_peer.lock_owned().await);
                }
                _ => break permit,
            }
        };
        let (is_right, permit) = self.checker.is_right(permit, password, hash).await;
        let is_right = is_right && is_user;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).add(digest, is_right);
        if is_right {
            return Some(Admission::User(user));
        }
        let delay = self.delays.count(peer);
        // A check that begins before the count does not see the delay.
        drop(permit);
        let name = user.name.unwrap_or_default();
        let name = &name[..name.floor_char_boundary(MAX_NAME)];
        let peer = peer.map_or_else(|| "the socket".to_owned(), |peer| peer.to_string());
        tracing::warn!(user = ?name, peer, ?delay, "a wrong password or an unknown user");
        if delay.is_zero() {
            return Some(Admission::Refused);
        }
        sleep(delay.min(LONGEST_DELAY)).await;
        drop(turn);
        Some(Admission::TooOften(delay))
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

fn too_often(delay: Duration) -> Response {
    let seconds = delay.as_secs();
    let text = format!("too many wrong passwords came from this address: try again in {seconds} s\n");
    let headers = [(header::RETRY_AFTER, seconds.to_string()), (header::CACHE_CONTROL, "no-store".to_owned())];
    (StatusCode::TOO_MANY_REQUESTS, headers, text).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use argon2::Argon2;
    use argon2::password_hash::rand_core::OsRng;
    use argon2::password_hash::{PasswordHasher, SaltString};

    use super::*;

    #[tokio::test]
    async fn a_delayed_peer_has_one_turn_and_others_have_theirs() {
        let salt = SaltString::generate(&mut OsRng);
        let hash = Argon2::default().hash_password(b"tea at five", &salt).unwrap();
        let passwords = HashMap::from([("anna".to_owned(), (hash.to_string(), Rights::All))]);
        let checks = Arc::new(Checks::new(Credentials { passwords: Some(passwords), ..Credentials::default() }));
        let [guessing, other] = ["192.0.2.1", "192.0.2.2"].map(|peer| Some(peer.parse::<IpAddr>().unwrap()));
        while checks.delays.count(guessing).is_zero() {}
        let guess = |number: usize, peer| {
            let checks = Arc::clone(&checks);
            let password = if number == 0 { "tea at five".to_owned() } else { format!("tea at {number}") };
            let header = format!("Basic {}", STANDARD.encode(format!("anna:{password}"))).parse().unwrap();
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, header)]);
            async move { checks.verdict(&headers, peer).await }
        };
        let (_, turn) = checks.delays.turn(guessing).unwrap();
        let held = turn.lock_owned().await;
        let waiting: Vec<_> = (1..WAITING).map(|number| tokio::spawn(guess(number, guessing))).collect();
        let known = || Arc::strong_count(&checks.delays.turn(guessing).unwrap().1);
        while known() < WAITING + 2 {
            tokio::task::yield_now().await;
        }
        assert!(matches!(guess(99, guessing).await, Admission::TooOften(_)), "too many wait");
        assert!(matches!(guess(0, other).await, Admission::User(_)));
        assert!(matches!(guess(0, guessing).await, Admission::User(_)), "it is remembered");
        assert!(checks.known.lock().unwrap().wrong.is_empty(), "none of them was hashed");
        // Clients that hang up do not end their turns.
        waiting.into_iter().for_each(|client| client.abort());
        drop(held);
        while checks.known.lock().unwrap().wrong.is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(checks.delays.turn(guessing).unwrap().1.try_lock().is_err(), "the answer is delayed");
    }
}
