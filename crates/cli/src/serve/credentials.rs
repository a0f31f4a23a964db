//! The credentials that a request must show, as the files and options say.

use std::collections::HashMap;
use std::path::Path;

use axum::http::HeaderName;
use ipnet::IpNet;
use sha2::{Digest, Sha256};
use uniqueue_faktory::Rights;

use super::args::ServeArguments;
use super::password;
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
    let problem = |hash: &str| (!password::is_hash(hash)).then_some("the password is not hashed with argon2");
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
        if let Err(problem) = password::check_name(name) {
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
