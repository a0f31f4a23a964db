//! Hashed passwords: argon2id in the PHC format.

use std::io::{self, BufRead, IsTerminal};

use argon2::password_hash::SaltString;
use argon2::password_hash::rand_core::OsRng;
use argon2::{Argon2, PasswordHash, PasswordHasher, PasswordVerifier};
use console::Term;

use crate::failure::Failure;

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

/// Whether a password belongs to a hash. Takes tens of milliseconds of a processor.
pub(super) fn is_right(password: &[u8], hash: &str) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_of_a_hash_is_right() {
        let hash = hash("correct horse").unwrap();
        assert!(is_hash(&hash) && is_right(b"correct horse", &hash));
        assert!(!is_right(b"correct horse ", &hash) && !is_right(b"", &hash));
        assert!(!is_hash("correct horse") && !is_hash("$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ"));
        assert!(!is_right(b"", "") && !is_right(b"x", "x"));
    }

    #[test]
    fn the_user_of_docker_compose_has_the_password_that_it_names() {
        let file = include_str!("../../../../docker-compose.yml");
        assert!(file.contains("as user admin with password uniqueue"));
        let line = file.lines().find_map(|line| line.trim().strip_prefix("admin:")).unwrap();
        assert!(is_right(b"uniqueue", &line.replace("$$", "$")));
    }
}
