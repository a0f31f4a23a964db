//! The credentials that a request must show, as the files and options say. Passwords are hashed: argon2id in the PHC format.
//!
//! A check takes tens of milliseconds of a processor and the memory that its hash asks for, by default 19 MiB. The permit of a
//! check ends with its thread, not with the request: a client that hangs up does not make room for another check. Checks
//! use the same memory one after another, because memory that each allocates anew would stay in the arenas of its thread.

use std::collections::HashMap;
use std::io::{self, BufRead, IsTerminal};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{Output, SaltString};
use argon2::{Algorithm, Argon2, Block, Params, PasswordHash, PasswordHasher, Version};
use axum::http::HeaderName;
use console::Term;
use ipnet::IpNet;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uniqueue_faktory::Rights;

use super::args::ServeArguments;
use crate::exit::Failure;

/// The shortest token.
const MIN_TOKEN: usize = 16;

/// The last field of a line whose user may only read.
const READ: &str = "read";

/// The user of a request, in its extensions.
#[derive(Clone, Debug)]
pub(super) struct User {
    /// `None`: credentials are not needed.
    pub(super) name: Option<String>,
    pub(super) rights: Rights,
}

/// The credentials that are accepted.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    /// Users, the hashes of their passwords, and what they may do.
    pub(super) passwords: Option<HashMap<String, (String, Rights)>>,
    /// Digests of tokens, whose they are, and what they allow.
    pub(super) tokens: Option<HashMap<[u8; 32], User>>,
    /// The header in which a proxy names the user.
    pub(super) header: Option<HeaderName>,
    /// The proxy's addresses. Empty on a Unix socket.
    pub(super) proxies: Vec<IpNet>,
}

impl Credentials {
    /// Reads the files that the arguments name.
    pub(super) fn read(arguments: &ServeArguments) -> Result<Self, Failure> {
        let passwords = arguments.basic_auth.as_deref().map(passwords).transpose()?;
        let tokens = arguments.bearer_token.as_deref().map(tokens).transpose()?;
        let header = arguments.trusted_header.as_deref().map(|name| {
            HeaderName::try_from(name.to_ascii_lowercase()).map_err(|_| {
                Failure::refused(format!("not the name of a header: {name:?}"), "such as X-Forwarded-User")
            })
        });
        Ok(Self { passwords, tokens, header: header.transpose()?, proxies: arguments.trusted_proxy.clone() })
    }

    /// Whether a request without credentials is refused.
    pub(super) fn are_needed(&self) -> bool {
        let Self { passwords, tokens, header, proxies: _ } = self;
        passwords.is_some() || tokens.is_some() || header.is_some()
    }
}

/// The digest of a token. Comparing digests tells nothing of how much of a guess was right.
pub(super) fn digest(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

fn passwords(file: &Path) -> Result<HashMap<String, (String, Rights)>, Failure> {
    let hint = "a line is made by: uniqueue serve --hash-password NAME";
    let problem = |hash: &str| (!is_hash(hash)).then_some("the password is not hashed with argon2");
    lines(file, hint, problem)
}

fn tokens(file: &Path) -> Result<HashMap<[u8; 32], User>, Failure> {
    let tokens = token_lines(file)?;
    let user = |name, rights| User { name: Some(name), rights };
    Ok(tokens.into_iter().map(|(name, (token, rights))| (digest(token.as_bytes()), user(name, rights))).collect())
}

/// The tokens of a file by their users' names, with what they allow.
pub(super) fn token_lines(file: &Path) -> Result<HashMap<String, (String, Rights)>, Failure> {
    let hint = "a line is NAME:TOKEN or NAME:TOKEN:read, and a token is made by: openssl rand -hex 32";
    lines(file, hint, |token| (token.len() < MIN_TOKEN).then_some("the token is shorter than 16 characters"))
}

/// Reads the lines `NAME:SECRET` and `NAME:SECRET:read` of a file. Empty lines, and those that begin with #, are comments. An
/// error never shows a secret.
fn lines(
    file: &Path,
    hint: &str,
    problem: impl Fn(&str) -> Option<&'static str>,
) -> Result<HashMap<String, (String, Rights)>, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::environment(format!("cannot read {}", file.display()), hint, error))?;
    let mut found = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let refuse = |problem: &str| {
            Err(Failure::refused(format!("{problem}: line {} of {}", number + 1, file.display()), hint))
        };
        let Some((name, secret)) = line.split_once(':') else { return refuse("no colon") };
        if let Err(problem) = check_name(name) {
            return refuse(&problem);
        }
        // A mistyped word must not give every right.
        let (secret, rights) = match secret.split_once(':') {
            None => (secret, Rights::All),
            Some((secret, READ)) => (secret, Rights::Read),
            Some(_) => return refuse("what follows the second colon is not the word read"),
        };
        if let Some(problem) = problem(secret) {
            return refuse(problem);
        }
        if found.insert(name.to_owned(), (secret.to_owned(), rights)).is_some() {
            return refuse("the name occurs twice");
        }
    }
    match found.is_empty() {
        true => Err(Failure::refused(format!("no user in {}", file.display()), hint)),
        false => Ok(found),
    }
}

/// The shortest password that is accepted.
const MIN_LENGTH: usize = 8;

/// The line of a user, with the password that standard input has.
pub(super) fn line(user: &str) -> Result<String, Failure> {
    check_name(user).map_err(|problem| Failure::refused(problem, "choose another name"))?;
    let failed = |error| Failure::environment("cannot read the password", "write it to standard input", error);
    let password = read(user)
        .map_err(failed)?
        .ok_or_else(|| Failure::refused("the two passwords differ".to_owned(), "type the same password twice"))?;
    if password.chars().count() < MIN_LENGTH {
        return Err(Failure::refused(
            format!("the password is too short: {} characters", password.chars().count()),
            format!("it needs at least {MIN_LENGTH}; write it to standard input"),
        ));
    }
    Ok(format!("{user}:{}", hash(&password)?))
}

/// The password, which a terminal does not show and asks for twice. `None`: the second one differs.
fn read(user: &str) -> io::Result<Option<String>> {
    // Standard output has the line only.
    let terminal = Term::stderr();
    if io::stdin().is_terminal() && terminal.is_term() {
        terminal.write_str(&format!("password of {user} (not shown): "))?;
        let password = terminal.read_secure_line()?;
        terminal.write_str("the same again: ")?;
        return Ok((terminal.read_secure_line()? == password).then_some(password));
    }
    let mut password = String::new();
    io::stdin().lock().read_line(&mut password)?;
    password.truncate(password.trim_end_matches(['\r', '\n']).len());
    Ok(Some(password))
}

/// Checks the name of a user of a file.
pub(super) fn check_name(user: &str) -> Result<(), String> {
    let is_plain = !user.is_empty() && user.len() <= 100 && !user.contains(':') && !user.chars().any(char::is_control);
    if is_plain { Ok(()) } else { Err(format!("a user's name has 1 to 100 bytes and no colon: {user:?}")) }
}

fn hash(password: &str) -> Result<String, Failure> {
    let salt = SaltString::generate(&mut OsRng);
    match Argon2::default().hash_password(password.as_bytes(), &salt) {
        Ok(hash) => Ok(hash.to_string()),
        Err(error) => Err(Failure::refused(format!("cannot hash the password: {error}"), "choose another one")),
    }
}

/// Whether a hash can be read, so that a damaged file is found at the start.
pub(super) fn is_hash(text: &str) -> bool {
    PasswordHash::new(text).is_ok_and(|hash| hash.algorithm.as_str().starts_with("argon2") && hash.hash.is_some())
}

/// Checks passwords, a fixed number at once.
pub(super) struct Checker {
    permits: Arc<Semaphore>,
    /// Memory that no check uses now.
    memory: Arc<Mutex<Vec<Vec<Block>>>>,
}

impl Checker {
    pub(super) fn new(at_once: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(at_once)), memory: Arc::default() }
    }

    /// Waits for the permit of a check.
    pub(super) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }

    /// Whether a password belongs to a hash, and the permit, which is free again when the caller drops it.
    pub(super) async fn is_right(
        &self,
        permit: OwnedSemaphorePermit,
        password: Vec<u8>,
        hash: String,
    ) -> (bool, Option<OwnedSemaphorePermit>) {
        let idle = Arc::clone(&self.memory);
        let check = tokio::task::spawn_blocking(move || {
            let mut memory = idle.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
            let is_right = is_right(&password, &hash, &mut memory).unwrap_or(false);
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
            (is_right, Some(permit))
        });
        check.await.unwrap_or((false, None))
    }
}

/// Hashes the password as the hash was made, in the given memory, which grows to what the hash asks for.
fn is_right(password: &[u8], hash: &str, memory: &mut Vec<Block>) -> argon2::password_hash::Result<bool> {
    let hash = PasswordHash::new(hash)?;
    let (Some(salt), Some(expected)) = (hash.salt, hash.hash) else { return Ok(false) };
    let algorithm = Algorithm::try_from(hash.algorithm)?;
    let version = hash.version.map(Version::try_from).transpose()?.unwrap_or_default();
    let params = Params::try_from(&hash)?;
    if memory.len() < params.block_count() {
        memory.resize(params.block_count(), Block::new());
    }
    let mut salt_bytes = [0; argon2::password_hash::Salt::MAX_LENGTH];
    let salt = salt.decode_b64(&mut salt_bytes)?;
    let found = Output::init_with(expected.len(), |found| {
        let argon2 = Argon2::new(algorithm, version, params);
        Ok(argon2.hash_password_into_with_memory(password, salt, found, memory)?)
    })?;
    // Compares in constant time.
    Ok(found == expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_right(password: &[u8], hash: &str) -> bool {
        super::is_right(password, hash, &mut Vec::new()).unwrap_or(false)
    }

    #[test]
    fn only_the_password_of_a_hash_is_right() {
        let hash = hash("correct horse").unwrap();
        assert!(is_hash(&hash) && is_right(b"correct horse", &hash));
        assert!(!is_right(b"correct horse ", &hash) && !is_right(b"", &hash));
        assert!(!is_hash("correct horse") && !is_hash("$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ"));
        assert!(!is_right(b"", "") && !is_right(b"x", "x"));
    }

    #[test]
    fn memory_that_a_check_has_used_serves_the_next() {
        let [small, large] = [(64, 1), (256, 2)].map(|(memory, passes)| {
            let params = Params::new(memory, passes, 1, None).unwrap();
            let salt = SaltString::generate(&mut OsRng);
            let argon2 = Argon2::new(Algorithm::Argon2id, Version::default(), params);
            argon2.hash_password(b"correct horse", &salt).unwrap().to_string()
        });
        let mut memory = Vec::new();
        for hash in [&small, &large, &small] {
            assert!(super::is_right(b"correct horse", hash, &mut memory).unwrap());
            assert!(!super::is_right(b"correct hose", hash, &mut memory).unwrap());
        }
        assert_eq!(memory.len(), 256);
    }

    #[tokio::test]
    async fn a_check_keeps_its_permit_when_its_request_is_dropped() {
        let checker = Checker::new(1);
        let hash = hash("correct horse").unwrap();
        let permit = checker.permit().await.unwrap();
        let mut check = Box::pin(checker.is_right(permit, b"wrong".to_vec(), hash));
        // The first poll starts the thread.
        std::future::poll_fn(|context| std::task::Poll::Ready(check.as_mut().poll(context).is_ready())).await;
        drop(check);
        drop(checker.permit().await.unwrap());
        assert_eq!(checker.memory.lock().unwrap().len(), 1, "the check has ended, and its memory is back");
    }

    #[test]
    fn the_user_of_docker_compose_has_the_password_that_it_names() {
        let file = include_str!("../../../../docker-compose.yml");
        assert!(file.contains("as user admin with password uniqueue"));
        let line = file.lines().find_map(|line| line.trim().strip_prefix("admin:")).unwrap();
        assert!(is_right(b"uniqueue", &line.replace("$$", "$")));
    }
}
