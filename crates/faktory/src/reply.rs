//! Replies, refusals, and the JSON of commands, which is refused where it cannot be read.

use serde::de::DeserializeOwned;
use uniqueue::Error;

/// The reply to a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Reply {
    Ok,
    /// A value, which is JSON.
    Value(String),
    /// No value.
    Null,
    Refused(Refusal),
}

impl Reply {
    /// The bytes that are sent.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Ok => b"+OK\r\n".to_vec(),
            Self::Null => b"$-1\r\n".to_vec(),
            Self::Value(json) => format!("${}\r\n{json}\r\n", json.len()).into_bytes(),
            Self::Refused(refusal) => format!("-{refusal}\r\n").into_bytes(),
        }
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The most bytes of the text of an error.
const MAX_BYTES: usize = 500;

/// An error that a command is answered with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self { code: "ERR", text: one_line(text.as_ref()) }
    }

    /// A job that another one keeps out, in the words that clients look for.
    pub(crate) fn not_unique() -> Self {
        Self { code: "NOTUNIQUE", text: "Job not unique".to_owned() }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.code, self.text)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        if error.is_duplicate() {
            return Self::not_unique();
        }
        if matches!(error, Error::Database(_) | Error::Connect { .. }) {
            // It may name hosts, users and tables. As a quoted string it stays one line of the log.
            tracing::warn!(error = ?error.to_string(), "a command of Faktory's protocol failed");
            return Self::new("The database does not answer, or refused the command: the server's log says more");
        }
        tracing::debug!(%error, "a command failed");
        Self::new(error.to_string())
    }
}

/// A text without line breaks, which would begin another reply.
fn one_line(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_BYTES)].chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The deepest nesting of arrays and objects.
const MAX_DEPTH: usize = 100;

/// The most characters of the JSON that an error shows.
const SHOWN: usize = 80;

/// Reads the JSON of a command.
pub(crate) fn read<T: DeserializeOwned>(verb: &str, text: &str) -> Result<T, Refusal> {
    // JSON that is passed on as text is not read otherwise.
    if uniqueue::json::depth(text) > MAX_DEPTH {
        return Err(Refusal::new(format!("Invalid {verb}: nested deeper than {MAX_DEPTH}")));
    }
    parse(verb, text)
}

/// Reads JSON whose depth was checked.
pub(crate) fn parse<T: DeserializeOwned>(verb: &str, text: &str) -> Result<T, Refusal> {
    serde_json::from_str(text).map_err(|error| {
        let shown: String = text.chars().take(SHOWN).collect();
        Refusal::new(format!("Invalid {verb}: {error}: {shown}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn json_is_read_up_to_a_depth() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read::<Value>("PUSH", &nested(MAX_DEPTH)).is_ok());
        let refused = read::<Value>("PUSH", &nested(MAX_DEPTH + 1)).unwrap_err();
        assert_eq!(refused.to_string(), "ERR Invalid PUSH: nested deeper than 100");
        let brackets = format!("\"\\\"{}\"", "[".repeat(500));
        assert!(read::<Value>("PUSH", &brackets).is_ok(), "brackets in a text are not nested");
    }
}
