//! Results that the database rejects: which errors are due to their rows, and the results that replace them.

use super::result::Ended;
use crate::error::Error;
use crate::runner::shared::Shared;
use crate::store::{StoredError, Verdict};
use crate::worker::panics::wait_after;

/// How the error begins that takes the place of a result that could not be stored.
const NOT_STORED: &str = "the result could not be stored";

/// Whether the same statement would fail the same way again, because of its data.
pub(in crate::runner) fn is_hopeless(error: &Error) -> bool {
    match error {
        Error::Database(sqlx::Error::Database(database)) => {
            // Data exceptions, constraint violations and limits; but a full queue of notifications empties again.
            let is_of_data = |code: &str| ["22", "23", "54"].iter().any(|class| code.starts_with(class));
            database.code().is_some_and(|code| is_of_data(&code)) && !error.is_notify_queue_full()
        }
        Error::Database(sqlx::Error::Encode(_)) => true,
        _ => false,
    }
}

/// Whether the server refused this statement, perhaps because of a single row. An error of the connection tells nothing of
/// a row, and neither does one of a server that [refuses everything](Error::is_of_server).
pub(in crate::runner) fn is_refusal(error: &Error) -> bool {
    match error {
        Error::Database(sqlx::Error::Database(_)) => !error.is_of_server() && !error.is_lock_timeout(),
        _ => is_hopeless(error),
    }
}

/// Replaces a result that cannot be stored by one that can. `false`: there is nothing more to leave out.
pub(in crate::runner) fn replace(shared: &Shared, ended: &mut Ended, error: &Error) -> bool {
    let Some(replacement) = replace_with(shared, ended, error) else { return false };
    tracing::error!(job.id = %ended.result.id, %error, replacement, "the database rejects a result: it is replaced");
    true
}

/// Answers with what the replacement is.
fn replace_with(shared: &Shared, ended: &mut Ended, error: &Error) -> Option<&'static str> {
    let result = &mut ended.result;
    // A row of the application may refer to the job's. The pruner deletes it when it can.
    if std::mem::take(&mut result.is_deleted) {
        return Some("the job is kept");
    }
    // A job's progress must not cost it its result.
    if result.progress.take().is_some() {
        return Some("without progress");
    }
    let reason = StoredError::coded("not_stored", format!("{NOT_STORED}: {error}"));
    let text = match &result.verdict {
        // These carry nothing of the job's own, so the job is not at fault.
        Verdict::Complete { output: None } | Verdict::GiveBack { .. } | Verdict::Snooze { .. } => return None,
        Verdict::Retry { error, .. } => Some(error),
        Verdict::Discard { reason } => Some(reason),
        Verdict::Complete { output: Some(_) } | Verdict::Cancel { .. } => None,
    };
    if text.is_some_and(|error| error.text.starts_with(NOT_STORED)) {
        return None;
    }
    result.verdict = match result.verdict {
        Verdict::Retry { delay, .. } => Verdict::Retry { delay, error: reason },
        // The next run may return another output.
        Verdict::Complete { .. } => {
            let policy = shared.retry_policy_of(ended.telemetry.kind.as_str());
            Verdict::Retry { delay: wait_after(policy, result.attempt), error: reason }
        }
        _ => Verdict::Discard { reason },
    };
    Some("a failure")
}
