//! Errors of attempts with a code, a type, details, a delay, and whether another attempt can succeed.

use std::error::Error;
use std::fmt;
use std::iter::successors;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::words::outcome::{BoxError, type_of};

/// The longest code in bytes. A longer one is cut.
const MAX_CODE_BYTES: usize = 128;

/// The most bytes of details, as JSON.
const MAX_DETAILS_BYTES: usize = 16 * 1024;

/// The longest type in bytes. A longer one is cut.
const MAX_TYPE_BYTES: usize = 256;

/// An error of an attempt with a code, a type and details. The runner stores them with the error's text in the job's
/// [`errors`](crate::JobRow::errors), and jobs are found by the code of their last error
/// ([`JobFilter::error_code`](crate::JobFilter::error_code)).
///
/// ```
/// use std::time::Duration;
/// use uniqueue::{BoxError, JobError};
///
/// fn charge(status: u16) -> Result<(), BoxError> {
///     match status {
///         200 => Ok(()),
///         402 => Err(JobError::new("the card was declined").code("card_declined").permanent().into()),
///         429 => Err(JobError::new("too many requests").code("throttled").retry_after(Duration::from_secs(30)).into()),
///         _ => Err(JobError::new(format!("status {status}")).code("gateway").into()),
///     }
/// }
/// # assert_eq!(charge(402).unwrap_err().to_string(), "the card was declined");
/// ```
///
/// It works with `?`, and anywhere in an error's chain of sources. Added context does not hide it. If a chain has several,
/// the outermost value of each property counts, and one permanent error makes the whole chain permanent.
///
/// An error that is no `JobError` has the type of the worker's `Result`, and no code.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
#[must_use]
pub struct JobError(#[source] Cause);

/// An error and its properties. It is found in the chain of sources even behind a wrapper that hides the type of the
/// wrapped error, as anyhow's does.
#[derive(Debug)]
struct Cause {
    error: BoxError,
    code: Option<String>,
    error_type: Option<String>,
    is_permanent: bool,
    retry_after: Option<Duration>,
    details: Option<Value>,
}

impl JobError {
    /// An error, or a text. The type of the error is kept as its type.
    pub fn new<E: Into<BoxError>>(error: E) -> Self {
        let error_type = type_of::<E>().map(ToOwned::to_owned);
        let error = error.into();
        Self(Cause { error, code: None, error_type, is_permanent: false, retry_after: None, details: None })
    }

    /// The code of the error, for filters and statistics: a short word that stays the same, such as `card_declined`. At most
    /// 128 bytes are kept. Default: none.
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.0.code = Some(code.into());
        self
    }

    /// The type of the error, where the Rust type does not tell it, as for an error of a program in another language. At most
    /// 256 bytes are kept. Default: the Rust type that [`new`](Self::new) was given, and none for a text.
    pub fn error_type(mut self, error_type: impl Into<String>) -> Self {
        self.0.error_type = Some(error_type.into());
        self
    }

    /// Another attempt cannot succeed: the job is discarded at once, with the error's text, however many attempts it has
    /// left. Default: the job is retried.
    ///
    /// ```
    /// use uniqueue::{BoxError, JobError};
    ///
    /// fn parse(amount: &str) -> Result<u64, BoxError> {
    ///     Ok(amount.parse().map_err(|error| JobError::new(error).permanent())?)
    /// }
    /// # assert!(JobError::is_permanent_in(&*parse("ten").unwrap_err()));
    /// ```
    pub fn permanent(mut self) -> Self {
        self.0.is_permanent = true;
        self
    }

    /// Details of the error, such as a backtrace or the answer of a service. Details of more than 16 KiB as JSON are dropped.
    pub fn details(mut self, details: impl Into<Value>) -> Self {
        self.0.details = Some(details.into());
        self
    }

    /// The code of an error, or of the first of its sources that has one.
    #[must_use]
    pub fn code_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a str> {
        causes(error).find_map(|cause| cause.code.as_deref())
    }

    /// Whether an error, or one of its sources, is permanent.
    #[must_use]
    pub fn is_permanent_in(error: &(dyn Error + 'static)) -> bool {
        causes(error).any(|cause| cause.is_permanent)
    }

    /// The job waits this long for its next attempt. Default: as the retry policy says.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }
}

/// The delay that an error asks for, and the members that an entry of `errors` gets from it. For the crate of remote workers.
#[doc(hidden)]
#[must_use]
pub fn error_details(error: &JobError) -> (Option<Duration>, Option<Value>) {
    let details = ErrorDetails::of(error, None);
    (details.retry_after, details.members())
}

/// The properties of the errors of a chain.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a Cause> {
    // The marks themselves are in the chain: each mark is a source of the error that shows it.
    successors(Some(error), |&error| error.source()).filter_map(|error| error.downcast_ref::<Cause>())
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// The details that a failed attempt stores with its text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ErrorDetails {
    pub(crate) code: Option<String>,
    pub(crate) error_type: Option<String>,
    /// Whether another attempt cannot succeed.
    pub(crate) is_permanent: bool,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) details: Option<Value>,
}

impl ErrorDetails {
    /// Of an error that a worker returned. `declared`: the type that its signature names.
    pub(crate) fn of(error: &(dyn Error + 'static), declared: Option<&str>) -> Self {
        let mut details = Self::default();
        for cause in causes(error) {
            let code = cause.code.as_deref().map(|code| cut(code, MAX_CODE_BYTES));
            let error_type = cause.error_type.as_deref().map(|of_cause| cut(of_cause, MAX_TYPE_BYTES));
            details.code = details.code.or(code);
            details.error_type = details.error_type.or(error_type);
            details.is_permanent |= cause.is_permanent;
            details.retry_after = details.retry_after.or(cause.retry_after);
            if details.details.is_none() {
                details.details = cause.details.clone().filter(|more| more.to_string().len() <= MAX_DETAILS_BYTES);
            }
        }
        details.error_type = details.error_type.or_else(|| declared.map(|declared| cut(declared, MAX_TYPE_BYTES)));
        details
    }

    /// Of an error of uniqueue's own.
    pub(crate) fn coded(code: &str) -> Self {
        Self { code: Some(code.to_owned()), ..Self::default() }
    }

    /// The members that an entry of `errors` gets. `None`: it gets none.
    pub(crate) fn members(&self) -> Option<Value> {
        let mut members = Map::new();
        let text = |text: &String| storable(&Value::String(text.clone()));
        members.extend(self.code.as_ref().map(|code| ("code".to_owned(), text(code))));
        members.extend(self.error_type.as_ref().map(|of_error| ("type".to_owned(), text(of_error))));
        members.extend(self.is_permanent.then(|| ("retryable".to_owned(), Value::Bool(false))));
        members.extend(self.details.as_ref().map(|more| ("details".to_owned(), storable(more))));
        (!members.is_empty()).then_some(Value::Object(members))
    }
}

/// A value without the one character that PostgreSQL cannot store.
fn storable(value: &Value) -> Value {
    let text = |text: &String| text.replace('\0', "\u{fffd}");
    match value {
        Value::String(given) => Value::String(text(given)),
        Value::Array(items) => items.iter().map(storable).collect(),
        Value::Object(members) => members.iter().map(|(name, value)| (text(name), storable(value))).collect(),
        other => other.clone(),
    }
}

/// The start of a text, at most `most` bytes.
fn cut(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

#[cfg(test)]
mod tests {
    use std::any::type_name;

    use super::*;

    #[derive(Debug)]
    struct CardError;

    impl fmt::Display for CardError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("declined")
        }
    }

    impl Error for CardError {}

    /// An error that hides the type of the one it wraps, and shows its source.
    #[derive(Debug)]
    struct Hidden(BoxError);

    impl fmt::Display for Hidden {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
    }

    impl Error for Hidden {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.0.source()
        }
    }

    #[test]
    fn what_is_said_of_an_error_is_found_through_wrappers() {
        let inner = JobError::new(CardError).code("card").retry_after(Duration::from_secs(3));
        let outer = JobError::new(Hidden(inner.into())).permanent();
        let details = ErrorDetails::of(&Hidden(outer.into()), Some("declared"));
        assert_eq!(details.code.as_deref(), Some("card"));
        assert!(details.is_permanent);
        assert_eq!(details.retry_after, Some(Duration::from_secs(3)));
        assert_eq!(details.error_type.as_deref(), Some(type_name::<Hidden>()));
    }

    #[test]
    fn the_type_is_the_errors_own_unless_it_can_be_any() {
        assert_eq!(type_of::<CardError>(), Some(type_name::<CardError>()));
        assert_eq!(type_of::<std::io::Error>(), Some("std::io::error::Error"));
        for none in [type_of::<&str>(), type_of::<String>(), type_of::<BoxError>(), type_of::<JobError>()] {
            assert_eq!(none, None);
        }
        assert_eq!(ErrorDetails::of(&CardError, Some("declared")).error_type.as_deref(), Some("declared"));
        let text = JobError::new("text").code("é".repeat(70));
        let details = ErrorDetails::of(&text, None);
        assert_eq!((details.error_type, details.code.unwrap().len()), (None, 128));
        let long = JobError::new("text").error_type("é".repeat(150));
        assert_eq!(ErrorDetails::of(&long, None).error_type.map(|name| name.len()), Some(256));
        let large = JobError::new("text").details("x".repeat(17_000));
        assert_eq!(ErrorDetails::of(&large, None).members(), None);
    }

    #[test]
    fn an_error_without_details_stores_its_text_alone() {
        assert_eq!(ErrorDetails::of(&CardError, None).members(), None);
        let details = ErrorDetails::of(&JobError::new("no").code("a\0b").permanent(), None);
        assert_eq!(details.members(), Some(serde_json::json!({"code": "a\u{fffd}b", "retryable": false})));
    }
}
