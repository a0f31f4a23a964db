//! Results whose answers were lost: the job may be completed already, as it may be by a worker in a transaction of its own.
//! The row tells.

use std::collections::HashSet;
use std::time::Duration;

use super::rejected::is_refusal;
use super::result::Ended;
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

/// Finds out which jobs were completed already, of those whose results did not count.
pub(in crate::runner) async fn find_completed(shared: &Shared, batch: &mut [Ended], finished: &FinishedStates) {
    let ids = in_question(batch, |ended| !finished.contains_key(&ended.result.id));
    if ids.is_empty() {
        return;
    }
    match tokio::time::timeout(ANSWER_TIMEOUT, not_completed(shared, &ids)).await {
        Ok(Ok(open)) => correct(batch, |id| !open.contains(&id)),
        // Most are completed.
        Ok(Err(error)) => tracing::debug!(%error, "could not ask which jobs were completed already"),
        Err(_) => tracing::debug!("could not ask which jobs were completed already: no answer"),
    }
}

/// The same of results that are not sent any more. Without an answer none of them counts.
pub(in crate::runner) async fn find_completed_of_lost(shared: &Shared, batch: &mut [Ended]) {
    let ids = in_question(batch, |_| true);
    if ids.is_empty() {
        return;
    }
    let open = tokio::time::timeout(ANSWER_TIMEOUT, not_completed(shared, &ids)).await;
    correct(batch, |id| matches!(&open, Ok(Ok(open)) if !open.contains(&id)));
}

fn in_question(batch: &[Ended], is_asked: impl Fn(&Ended) -> bool) -> Vec<uuid::Uuid> {
    let asked = batch.iter().filter(|ended| ended.may_be_completed && is_asked(ended));
    asked.map(|ended| ended.result.id.as_uuid()).collect()
}

fn correct(batch: &mut [Ended], is_completed: impl Fn(JobId) -> bool) {
    for ended in batch {
        ended.may_be_completed &= is_completed(ended.result.id);
    }
}

/// The jobs that exist and are not completed. A job that is gone was deleted as it was completed.
async fn not_completed(shared: &Shared, ids: &[uuid::Uuid]) -> Result<HashSet<JobId>> {
    shared.ask(async |store| store.not_completed(ids).await).await
}
