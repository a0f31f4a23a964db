//! One batch of a change: one statement for jobs by their ids, its events, and its listeners.

use std::fmt;
use std::time::Duration;

use sqlx::PgConnection;

use crate::client::Client;
use crate::error::Result;
use crate::store::{Changed, Changes, LogEntry, Told, Verb, settle_within};
use crate::unique::{RefusedRetry, StateSet};
use crate::words::event::{Event, Happened, TAKEN};
use crate::words::ident::JobId;
use crate::words::state::JobState;

/// The error of a job that was discarded by hand, as the database writes it.
const BY_OPERATOR: &str = "discarded by an operator";

/// A batch of jobs that were changed.
pub(super) struct ChangedBatch {
    pub(super) changed: Vec<JobId>,
    /// The changed jobs that their policy discarded instead.
    discarded: Vec<JobId>,
    /// The jobs that were left as they were, because their key is taken.
    refused: Vec<RefusedRetry>,
}

/// How long a statement may take, and wait for a lock. `None`: as long as the connection's own settings allow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StatementLimits {
    pub(super) statement: Option<Duration>,
    pub(super) lock: Option<Duration>,
}

/// Changes jobs by their ids, in one of these states if some are given. `is_own`: the connection is in no transaction of
/// the caller's; only then does the limit of a statement count. `entry`: the row of the log, to which the batch adds.
#[expect(clippy::too_many_arguments, reason = "each is one option of the statement")]
pub(super) async fn change_batch(
    client: &Client,
    connection: &mut PgConnection,
    verb: Verb,
    ids: &[JobId],
    states: Option<StateSet>,
    limits: StatementLimits,
    is_own: bool,
    entry: &LogEntry,
) -> Result<ChangedBatch> {
    let changing = settle_within!(
        limits.statement,
        is_own,
        connection,
        client.store(connection).change(verb, ids, states, limits.lock, entry)
    );
    let Changes { changed, refused } = changing;
    let mut batch = ChangedBatch { changed: Vec::with_capacity(changed.len()), discarded: Vec::new(), refused };
    for Changed { id, told } in changed {
        batch.changed.push(id);
        if let Some(told) = told {
            if told.state == JobState::Discarded && !matches!(verb, Verb::Discard) {
                batch.discarded.push(id);
            }
            publish(client, verb, id, told);
        }
    }
    Ok(batch)
}

/// Publishes the event of a job that was cancelled, retried or discarded by hand.
fn publish(client: &Client, verb: Verb, id: JobId, Told { kind, queue, attempt, state }: Told) {
    let happened = match verb {
        Verb::Discard => Happened::Discarded { reason: BY_OPERATOR.to_owned() },
        _ if state == JobState::Discarded => Happened::Discarded { reason: TAKEN.to_owned() },
        Verb::Cancel => Happened::Cancelled { reason: None },
        _ if state == JobState::Pending => return,
        Verb::Retry { .. } | Verb::RetryGraph => Happened::Retried { after: Duration::ZERO, error: None },
        Verb::Delete | Verb::Release | Verb::Reschedule(_) | Verb::SetPriority(_) => return,
    };
    client.publish(Event { id, kind, queue, attempt, happened });
}

/// The caller's functions that are called after each batch.
#[derive(Default)]
pub(super) struct Listeners<'a> {
    pub(super) on_batch: Option<Listener<'a>>,
    pub(super) on_discarded: Option<Listener<'a>>,
    pub(super) on_refused: Option<Listener<'a, RefusedRetry>>,
}

type Listener<'a, T = JobId> = Box<dyn FnMut(&[T]) + Send + 'a>;

impl Listeners<'_> {
    pub(super) fn call(&mut self, ChangedBatch { changed, discarded, refused }: &ChangedBatch) {
        if let Some(on_refused) = &mut self.on_refused
            && !refused.is_empty()
        {
            on_refused(refused);
        }
        if let Some(on_discarded) = &mut self.on_discarded
            && !discarded.is_empty()
        {
            on_discarded(discarded);
        }
        if let Some(on_batch) = &mut self.on_batch {
            on_batch(changed);
        }
    }
}

impl fmt::Debug for Listeners<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { on_batch, on_discarded, on_refused } = self;
        f.debug_struct("Listeners")
            .field("on_batch", &on_batch.is_some())
            .field("on_discarded", &on_discarded.is_some())
            .field("on_refused", &on_refused.is_some())
            .finish()
    }
}
