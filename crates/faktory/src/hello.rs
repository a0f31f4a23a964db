//! The greeting: `HI` with a challenge, and `HELLO` with the hash of a password.
//!
//! The protocol needs the password itself on the server, since the client hashes it with a salt of the server's. A check
//! takes thousands of hashes for each password, so few are made at once.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use uuid::Uuid;

use crate::reply::{Refusal, read};

/// How often a password is hashed, at the least, and how much the number varies.
const ITERATIONS: u32 = 2_048;
const VARIES: u32 = 1_024;

/// How many checks are made at once.
const CHECKS: usize = 2;

/// The longest that the answer to a wrong password waits. The greeting has its own limit.
const LONGEST_DELAY: Duration = Duration::from_secs(1);

/// The most bytes of the name of a worker.
const MAX_WID: usize = 100;

/// The rights of a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rights {
    /// Every command.
    All,
    /// `INFO`, and the latency of queues.
    Read,
}

/// Counts wrong passwords by peer, and delays their answers. Right passwords of the same peer are not delayed.
pub trait Guard: Send + Sync + 'static {
    /// Counts a wrong password. Returns how long its answer waits, of which a second at most counts.
    fn wrong(&self, peer: Option<IpAddr>) -> Duration;
}

/// The users that may connect. Without any, every client may.
#[derive(Clone)]
pub(crate) struct Users {
    users: Vec<User>,
    pub(crate) guard: Option<Arc<dyn Guard>>,
    checks: Arc<Semaphore>,
}

#[derive(Clone)]
struct User {
    name: String,
    password: String,
    rights: Rights,
}

/// The user of a connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Identity {
    /// The actor of changes.
    pub(crate) name: String,
    pub(crate) rights: Rights,
    /// The name of the worker. Empty: the client is no worker.
    pub(crate) wid: String,
}

/// The salt and the iterations of the password's hash.
#[derive(Clone, Debug)]
pub(crate) struct Challenge {
    salt: String,
    iterations: u32,
}

/// The answer of a client.
#[derive(Deserialize)]
pub(crate) struct Hello {
    v: Option<u8>,
    wid: Option<String>,
    pwdhash: Option<String>,
}

/// Reads the answer of a client.
pub(crate) fn parse(line: &[u8]) -> Result<Hello, Refusal> {
    let text = std::str::from_utf8(line).ok().and_then(|line| line.strip_prefix("HELLO "));
    let text = text.ok_or_else(|| Refusal::new("Invalid greeting: send HELLO first"))?;
    let hello: Hello = read("HELLO", text)?;
    if hello.v.is_some_and(|v| v != 2) {
        return Err(Refusal::new("Invalid HELLO: the protocol is version 2"));
    }
    let wid = hello.wid.as_deref().unwrap_or_default();
    if wid.len() > MAX_WID || wid.chars().any(char::is_control) {
        return Err(Refusal::new(format!("Invalid wid: must have at most {MAX_WID} bytes")));
    }
    Ok(hello)
}

impl Users {
    pub(crate) fn new() -> Self {
        Self { users: Vec::new(), guard: None, checks: Arc::new(Semaphore::new(CHECKS)) }
    }

    pub(crate) fn add(&mut self, name: String, password: String, rights: Rights) {
        self.users.push(User { name, password, rights });
    }

    /// A new challenge. `None`: no password is needed.
    pub(crate) fn challenge(&self) -> Option<Challenge> {
        if self.users.is_empty() {
            return None;
        }
        // The last 62 bits are random.
        let random = Uuid::now_v7().as_u64_pair().1;
        let iterations = ITERATIONS + u32::try_from(random % u64::from(VARIES)).unwrap_or(0);
        Some(Challenge { salt: format!("{random:016x}"), iterations })
    }

    /// Reads the client's answer.
    pub(crate) async fn identify(
        &self,
        line: &[u8],
        challenge: Option<Challenge>,
        peer: Option<IpAddr>,
    ) -> Result<Identity, Refusal> {
        let Hello { wid, pwdhash, .. } = parse(line)?;
        let wid = wid.unwrap_or_default();
        let Some(challenge) = challenge else {
            return Ok(Identity { name: "faktory".to_owned(), rights: Rights::All, wid });
        };
        match self.user_of(challenge, pwdhash.unwrap_or_default()).await {
            Some((name, rights)) => Ok(Identity { name, rights, wid }),
            None => {
                tracing::warn!(peer = ?peer, "a client of Faktory's protocol sent a wrong password");
                if let Some(guard) = &self.guard {
                    sleep(guard.wrong(peer).min(LONGEST_DELAY)).await;
                }
                Err(Refusal::new("Invalid password"))
            }
        }
    }

    /// The user whose password has this hash.
    async fn user_of(&self, challenge: Challenge, given: String) -> Option<(String, Rights)> {
        // The permit ends with the thread, not with the connection: a client that hangs up makes no room for another check.
        let permit = Arc::clone(&self.checks).acquire_owned().await.ok()?;
        let users = self.users.clone();
        let check = tokio::task::spawn_blocking(move || {
            let mut found = None;
            // All are hashed, so that the time does not tell which user it was.
            for user in users {
                if equal(hash(&user.password, &challenge).as_bytes(), given.as_bytes()) {
                    found = Some((user.name, user.rights));
                }
            }
            drop(permit);
            found
        });
        check.await.ok()?
    }
}

impl Challenge {
    /// The greeting of the server.
    pub(crate) fn greeting(challenge: Option<&Self>) -> String {
        match challenge {
            // Some clients split the line at spaces.
            Some(Self { salt, iterations }) => format!("+HI {{\"v\":2,\"i\":{iterations},\"s\":\"{salt}\"}}\r\n"),
            None => "+HI {\"v\":2}\r\n".to_owned(),
        }
    }
}

/// The hash that a client makes of a password.
fn hash(password: &str, challenge: &Challenge) -> String {
    let mut digest = Sha256::new().chain_update(password).chain_update(&challenge.salt).finalize();
    for _ in 1..challenge.iterations {
        digest = Sha256::digest(digest);
    }
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares in a time that tells nothing of where two texts differ.
fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").field("users", &self.users.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_user_is_known_by_the_hash_of_the_password() {
        let mut users = Users::new();
        users.add("ruby".to_owned(), "correct horse".to_owned(), Rights::All);
        users.add("probe".to_owned(), "battery staple".to_owned(), Rights::Read);
        let challenge = Challenge { salt: "55104dc76695721d".to_owned(), iterations: 1_545 };
        // The example of the protocol's description.
        assert_eq!(hash("foobar", &challenge), "6d877f8e5544b1f2598768f817413ab8a357afffa924dedae99eb91472d4ec30");
        for (password, name) in [("correct horse", Some("ruby")), ("battery staple", Some("probe")), ("x", None)] {
            let hello = format!("HELLO {{\"v\":2,\"wid\":\"w\",\"pwdhash\":\"{}\"}}", hash(password, &challenge));
            let found = users.identify(hello.as_bytes(), Some(challenge.clone()), None).await;
            assert_eq!(found.as_ref().ok().map(|found| found.name.as_str()), name, "{found:?}");
        }
        let refused = users.identify(b"HELLO {\"v\":2}", Some(challenge), None).await.unwrap_err();
        assert_eq!(refused.to_string(), "ERR Invalid password");
        let (one, other) = (users.challenge().unwrap(), users.challenge().unwrap());
        assert!(one.salt != other.salt && one.salt.len() == 16);
    }
}
