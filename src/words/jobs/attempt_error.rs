//! The error of an attempt, as a job keeps it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;

/// The error of one attempt.
///
/// An entry in `errors` that no runner wrote, such as a note by hand, is read as its text, with attempt 0 in 1970.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(from = "Value")]
#[non_exhaustive]
pub struct AttemptError {
    /// The attempt, counted from 1.
    pub attempt: u16,
    /// When it ended, by the database's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// The error's text.
    pub error: String,
    /// A short word that stays the same, such as `card_declined` ([`JobError::code`](crate::JobError::code)). Of uniqueue's
    /// own: `by_operator`, `expired`, `invalid_args`, `lost`, `not_committed`, `not_stored`, `panicked`, `superseded`, `timed_out` and
    /// `unreadable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The error's type, such as `my_app::CardError`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// `false`: the worker reported that another attempt cannot succeed. `None`: the worker did not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// Further details from the worker, such as a backtrace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// An entry of `errors` as runners write it.
#[derive(Deserialize)]
struct ByRunner {
    attempt: u16,
    #[serde(with = "time::serde::rfc3339")]
    at: OffsetDateTime,
    error: String,
    code: Option<String>,
    #[serde(rename = "type")]
    error_type: Option<String>,
    retryable: Option<bool>,
    details: Option<Value>,
}

impl From<Value> for AttemptError {
    fn from(item: Value) -> Self {
        match ByRunner::deserialize(&item) {
            Ok(ByRunner { attempt, at, error, code, error_type, retryable, details }) => {
                Self { attempt, at, error, code, error_type, retryable, details }
            }
            Err(_) => {
                let error = item.as_str().map_or_else(|| item.to_string(), ToOwned::to_owned);
                Self {
                    attempt: 0,
                    at: OffsetDateTime::UNIX_EPOCH,
                    error,
                    code: None,
                    error_type: None,
                    retryable: None,
                    details: None,
                }
            }
        }
    }
}

/// The most bytes of an error or a reason that a job keeps and the log shows.
const MOST_ERROR_BYTES: usize = 16 * 1024;

/// A text within the limit of errors. A mark at the end of a cut text says how long it was.
pub(crate) fn limited(mut text: String) -> String {
    let whole = text.len();
    if whole > MOST_ERROR_BYTES {
        text.truncate(text.floor_char_boundary(MOST_ERROR_BYTES));
        text.push_str(&format!("… (cut: {whole} bytes)"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{MOST_ERROR_BYTES, limited};

    #[test]
    fn a_text_is_cut_between_characters_and_marked() {
        let most = "x".repeat(MOST_ERROR_BYTES);
        assert_eq!(limited(most.clone()), most);
        let cut = limited(format!("x{}", "ä".repeat(MOST_ERROR_BYTES)));
        assert_eq!(cut, format!("x{}… (cut: 32769 bytes)", "ä".repeat(MOST_ERROR_BYTES / 2 - 1)));
    }
}
