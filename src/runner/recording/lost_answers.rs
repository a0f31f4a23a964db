//! Results whose answers were lost: the job may be completed already, as it may be by a worker in a transaction of its own.
//! The row tells.

use std::collections::HashSet;
use std::time::Duration;

use super::rejected::is_refusal;
use super::result::Ended;
use crate::client::connections::time_limit;
use crate::error::{Error, Result};
use crate::runner::shared::Shared;
use crate::store::{FinishedStates, Verdict};
use crate::words::ident::JobId;

/// How long results wait for the answer whether their jobs are completed. They hold up other results meanwhile, and a
/// lease may have been lost because the database gives no answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Notes that sending these results failed, perhaps only after they were recorded.
pub(in crate::runner) fn note_failed_send(batch: &mut [Ended], error: &Error) {
    // A statement that the server refused did nothing.
    if is_refusal(error) || error.is_lock_timeout() {
        return;
    }
    for ended in batch {
        ended.may_be_completed |= matches!(ended.result.verdict, Verdict::Complete { .. });
    }
}

/// Finds the jobs that were completed already, among those whose results did not count. `without_answer`: the assumption where the
/// database gives no answer.
pub(in crate::runner) async fn find_completed(
    shared: &Shared,
    batch: &mut [Ended],
    finished: &FinishedStates,
    without_answer: bool,
) {
    let in_question = batch.iter().filter(|ended| ended.may_be_completed && !finished.contains_key(&ended.result.id));
    let ids: Vec<_> = in_question.map(|ended| ended.result.id.as_uuid()).collect();
    if ids.is_empty() {
        return;
    }
    let open = match time_limit::within(ANSWER_TIMEOUT, not_completed(shared, &ids)).await {
        Ok(open) => Some(open),
        Err(error) => {
            tracing::debug!(%error, "could not ask which jobs were completed already");
            None
        }
    };
    for ended in batch {
        ended.may_be_completed &= open.as_ref().map_or(without_answer, |open| !open.contains(&ended.result.id));
    }
}

/// The jobs that exist and are not completed. A job that is gone was deleted as it was completed.
async fn not_completed(shared: &Shared, ids: &[uuid::Uuid]) -> Result<HashSet<JobId>> {
    shared.ask(async |store| store.not_completed(ids).await).await
}
