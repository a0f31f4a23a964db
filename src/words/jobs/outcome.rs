//! Outcomes: how a worker ends an attempt.

use std::any::type_name;
use std::error::Error;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

/// An error of any type, as workers return it.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// How an attempt ends when it does not fail. A worker that returns `()` completes its job.
///
/// ```
/// use std::time::Duration;
/// use serde::{Deserialize, Serialize};
/// use uniqueue::{BoxError, Job, Outcome, RunningJob, testing};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "upload.check")]
/// struct CheckUpload {
///     bytes: Option<u64>,
/// }
///
/// async fn check(job: RunningJob<CheckUpload>) -> Result<Outcome, BoxError> {
///     Ok(match job.args.bytes {
///         // The upload goes on: look again in a minute, in the same attempt.
///         None => Outcome::snooze(Duration::from_secs(60)),
///         Some(0) => Outcome::discard("the file is empty"),
///         Some(bytes) => Outcome::complete_with(bytes)?,
///     })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let outcome = testing::work(check, CheckUpload { bytes: Some(0) }).await?;
/// assert_eq!(outcome, Outcome::discard("the file is empty"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// The work is done, with or without an output.
    Complete {
        /// Stored in the job's `output`.
        output: Option<Value>,
    },
    /// Try again after a delay. Uses up the attempt. The job is discarded when none is left.
    Retry {
        /// From now, by the database's clock.
        after: Duration,
        /// Why, for the job's `errors`.
        reason: String,
    },
    /// Run again after a delay. Does not use up an attempt.
    Snooze {
        /// From now, by the database's clock.
        after: Duration,
    },
    /// Run again after a delay, and hold the queue back for as long: no runner fetches from it. Does not use up an attempt.
    HoldQueue {
        /// From now, by the database's clock.
        after: Duration,
    },
    /// Run again after a delay, and hold the job's group back for as long: no runner fetches a job of it. Does not use up an
    /// attempt.
    HoldGroup {
        /// From now, by the database's clock.
        after: Duration,
    },
    /// Stop for good: the work is not wanted any more.
    Cancel {
        /// Why, for the job's `errors`.
        reason: String,
    },
    /// Give up for good: another attempt cannot succeed.
    Discard {
        /// Why, for the job's `errors`.
        reason: String,
    },
}

impl Outcome {
    /// The work is done.
    #[must_use]
    pub const fn complete() -> Self {
        Outcome::Complete { output: None }
    }

    /// The work is done, with this output.
    ///
    /// # Errors
    ///
    /// The error of serde_json if the value does not serialise.
    pub fn complete_with(output: impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Outcome::Complete { output: Some(serde_json::to_value(output)?) })
    }

    /// Run again after a delay, without using up an attempt.
    #[must_use]
    pub const fn snooze(after: Duration) -> Self {
        Outcome::Snooze { after }
    }

    /// Run again after a delay, and hold the queue back for as long, without using up an attempt: for a service that says to
    /// slow down.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uniqueue::Outcome;
    ///
    /// fn outcome(status: u16, retry_after: Duration) -> Outcome {
    ///     if status == 429 { Outcome::hold_queue(retry_after) } else { Outcome::complete() }
    /// }
    /// # assert_ne!(outcome(429, Duration::from_secs(1)), outcome(200, Duration::ZERO));
    /// ```
    ///
    /// No runner fetches from the queue until then, and this runner gives back what it fetched ahead. Running jobs go on. A
    /// hold that ends later stays. It stands even where the job was cancelled meanwhile, and
    /// [`Queue::resume`](crate::Queue::resume) ends it.
    #[must_use]
    pub const fn hold_queue(after: Duration) -> Self {
        Outcome::HoldQueue { after }
    }

    /// Run again after a delay, and hold the job's group back for as long, without using up an attempt. As
    /// [`hold_queue`](Self::hold_queue), for the jobs of the group alone. A job without a group only waits itself.
    /// [`Queue::resume_group`](crate::Queue::resume_group) ends the hold.
    #[must_use]
    pub const fn hold_group(after: Duration) -> Self {
        Outcome::HoldGroup { after }
    }

    /// Try again after a delay.
    #[must_use]
    pub fn retry(after: Duration, reason: impl Into<String>) -> Self {
        Outcome::Retry { after, reason: reason.into() }
    }

    /// Stop for good.
    #[must_use]
    pub fn cancel(reason: impl Into<String>) -> Self {
        Outcome::Cancel { reason: reason.into() }
    }

    /// Give up for good.
    #[must_use]
    pub fn discard(reason: impl Into<String>) -> Self {
        Outcome::Discard { reason: reason.into() }
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Outcome::complete()
    }
}

/// The return types of a worker function: `()`, an [`Outcome`], or a `Result` of either with any error. An error is
/// a failed attempt.
pub trait IntoResult {
    /// The attempt's result.
    ///
    /// # Errors
    ///
    /// The worker's own error.
    fn into_result(self) -> Result<Outcome, BoxError>;

    /// The type of the worker's error, where the signature tells it.
    #[doc(hidden)]
    #[must_use]
    fn error_type() -> Option<&'static str>
    where
        Self: Sized,
    {
        None
    }
}

impl IntoResult for () {
    fn into_result(self) -> Result<Outcome, BoxError> {
        Ok(Outcome::complete())
    }
}

impl IntoResult for Outcome {
    fn into_result(self) -> Result<Outcome, BoxError> {
        Ok(self)
    }
}

impl<T: Into<Outcome>, E: Into<BoxError>> IntoResult for Result<T, E> {
    fn into_result(self) -> Result<Outcome, BoxError> {
        self.map(Into::into).map_err(Into::into)
    }

    fn error_type() -> Option<&'static str> {
        type_of::<E>()
    }
}

/// The name of an error's type, such as `my_app::CardError`. `None` for a text, and for a type that holds errors of any
/// other.
pub(crate) fn type_of<E: ?Sized>() -> Option<&'static str> {
    let name = type_name::<E>();
    let is_any = name.starts_with('&')
        || name.contains("dyn ")
        || ["String", "str", "anyhow::Error", "eyre::Report", "JobError"]
            .iter()
            .any(|any| name.strip_suffix(any).is_some_and(|rest| rest.is_empty() || rest.ends_with("::")));
    (!is_any).then_some(name)
}
