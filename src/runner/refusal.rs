//! What the database refuses, and what is to be done about it.

use crate::error::Error;
use crate::store::Verdict;

use super::completer::{Ended, Way};

/// How the error begins that takes the place of what could not be stored.
const NOT_STORED: &str = "the result could not be stored";

/// Whether the same statement would fail the same way again: the database did not like its data.
pub(super) fn is_hopeless(error: &Error) -> bool {
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

/// Whether the server said no to this statement, perhaps for the sake of a single row. It says nothing of one where it
/// cannot be reached, or [says no to everything](Error::is_of_server).
pub(super) fn is_refusal(error: &Error) -> bool {
    match error {
        Error::Database(sqlx::Error::Database(_)) => !error.is_of_server() && !error.is_lock_timeout(),
        _ => is_hopeless(error),
    }
}

/// Makes of a result that cannot be stored one that can, and answers with what it is. `None`: there is nothing more to
/// leave out.
pub(super) fn replace(ended: &mut Ended, error: &Error) -> Option<&'static str> {
    // Somebody's row may refer to the job's. That is pruned when it can be.
    if ended.way() == Way::Delete {
        ended.is_deleted = false;
        return Some("the job is kept");
    }
    // What a job said of its progress must not cost it its result.
    if ended.result.progress.take().is_some() {
        return Some("without progress");
    }
    let reason = format!("{NOT_STORED}: {error}");
    let told = match &ended.result.verdict {
        // They have nothing of the job's own in them, so it has nothing to answer for.
        Verdict::Complete { output: None } | Verdict::GiveBack | Verdict::Snooze { .. } => return None,
        Verdict::Retry { error, .. } => Some(error),
        Verdict::Discard { reason } => Some(reason),
        Verdict::Complete { output: Some(_) } | Verdict::Cancel { .. } => None,
    };
    if told.is_some_and(|told| told.starts_with(NOT_STORED)) {
        return None;
    }
    ended.result.verdict = match ended.result.verdict {
        Verdict::Retry { delay, .. } => Verdict::Retry { delay, error: reason },
        _ => Verdict::Discard { reason },
    };
    Some("a failure")
}
