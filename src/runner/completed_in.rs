//! Results of jobs that may be completed already: their workers did so in transactions of their own, or the result was
//! sent before, and only the answer was lost. The row says whether that came to pass.
//!
//! Where it did, the job was over before this result came, and the database drops it. It drops it as well where the
//! transaction was rolled back and somebody cancelled the job meanwhile; and after a lost lease nobody sends it.

use std::collections::HashSet;
use std::time::Duration;

use super::Shared;
use super::completer::Ended;
use super::refusal::is_refusal;
use crate::error::{Error, Result};
use crate::ident::JobId;
use crate::store::{self, Counted, Verdict};

/// How long results wait for the answer: the line stands still meanwhile, and a lost lease perhaps was lost because the
/// database gives none.
const PATIENCE: Duration = Duration::from_secs(1);

/// Notes that a try to record these failed, perhaps only after they were recorded.
pub(super) fn doubt(batch: &mut [Ended], error: &Error) {
    // A statement that the server refused did nothing.
    if is_refusal(error) || error.is_lock_timeout() {
        return;
    }
    for ended in batch {
        ended.may_be_completed |= matches!(ended.result.verdict, Verdict::Complete { .. });
    }
}

/// Corrects which jobs were completed already, of those whose results did not count.
pub(super) async fn look(shared: &Shared, batch: &mut [Ended], finished: &Counted) {
    let ids = told(batch, |ended| finished.state(ended.result.id).is_none());
    if ids.is_empty() {
        return;
    }
    match tokio::time::timeout(PATIENCE, open(shared, &ids)).await {
        Ok(Ok(open)) => correct(batch, |id| !open.contains(&id)),
        // Most did.
        Ok(Err(error)) => tracing::debug!(%error, "could not ask which jobs were completed already"),
        Err(_) => tracing::debug!("could not ask which jobs were completed already: no answer"),
    }
}

/// The same of results that are not sent any more. What is not known did not count.
pub(super) async fn look_once_more(shared: &Shared, batch: &mut [Ended]) {
    let ids = told(batch, |_| true);
    if ids.is_empty() {
        return;
    }
    let open = tokio::time::timeout(PATIENCE, open(shared, &ids)).await;
    correct(batch, |id| matches!(&open, Ok(Ok(open)) if !open.contains(&id)));
}

/// The jobs of which it may be so.
fn told(batch: &[Ended], is_sought: impl Fn(&Ended) -> bool) -> Vec<uuid::Uuid> {
    let told = batch.iter().filter(|ended| ended.may_be_completed && is_sought(ended));
    told.map(|ended| ended.result.id.as_uuid()).collect()
}

fn correct(batch: &mut [Ended], is_completed: impl Fn(JobId) -> bool) {
    for ended in batch {
        ended.may_be_completed &= is_completed(ended.result.id);
    }
}

/// Those that are there and not completed. What is gone went as it was completed.
async fn open(shared: &Shared, ids: &[uuid::Uuid]) -> Result<HashSet<JobId>> {
    let mut connection = shared.desk.connection().await?;
    let open = shared.desk.answer(store::not_completed(&mut connection, shared.client.statements(), ids)).await;
    Ok(connection.settle(open)?.into_iter().collect())
}
