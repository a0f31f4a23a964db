//! Replies, in the protocol of Redis.

use crate::refusal::Refusal;

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
