//! Hashed passwords: argon2id in the PHC format.
//!
//! A check takes tens of milliseconds of a processor and the memory that its hash asks for, by default 19 MiB. The permit of a
//! check ends with its thread, not with the request: a client that hangs up does not make room for another check. Checks
//! use the same memory one after another, because memory that each allocates anew would stay in the arenas of its thread.

use std::io::{self, BufRead, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};

use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{Output, SaltString};
use argon2::{Algorithm, Argon2, Block, Params, PasswordHash, PasswordHasher, Version};
use console::Term;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::exit::Failure;

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
