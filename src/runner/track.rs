//! What is told of jobs as they go through the runner: events to subscribers, counts to metrics.
//!
//! There is one track for each kind and queue that the runner works, made at its start, so that
//! telling of a job looks nothing up but its track.

use std::collections::HashMap;
use std::sync::Arc;

use super::completer::Ended;
use crate::client::Client;
use crate::event::{Event, Happened, TAKEN};
use crate::ident::{JobId, Kind, QueueName};
use crate::job::JobRow;
use crate::metrics::{self, JobMeter, Timer};
use crate::state::JobState;
use crate::store::{Counted, Verdict};

/// Jobs of one kind in one queue.
pub(super) struct Track {
    kind: Kind,
    queue: QueueName,
    meter: JobMeter,
}

/// Every track of a runner, by kind, then by queue.
pub(super) struct Tracks {
    by_kind: HashMap<String, Vec<Arc<Track>>>,
}

impl Tracks {
    pub(super) fn new(kinds: &[String], queues: &[QueueName]) -> Self {
        let of_kind = |kind: &String| {
            let track = |queue: &QueueName| Arc::new(Track::new(&Kind::from_stored(kind), queue));
            (kind.clone(), queues.iter().map(track).collect())
        };
        Self { by_kind: kinds.iter().map(of_kind).collect() }
    }

    /// The track of a fetched job.
    pub(super) fn of(&self, kind: &Kind, queue: &QueueName) -> Arc<Track> {
        let tracks = self.by_kind.get(kind.as_str()).map_or(&[][..], Vec::as_slice);
        let known = tracks.iter().find(|track| track.queue == *queue);
        // Fetched by kind and queue, so it is known.
        known.map_or_else(|| Arc::new(Track::new(kind, queue)), Arc::clone)
    }
}

impl Track {
    fn new(kind: &Kind, queue: &QueueName) -> Self {
        Self { kind: kind.clone(), queue: queue.clone(), meter: JobMeter::new(kind, queue) }
    }

    /// Tells that an attempt begins.
    pub(super) fn started(&self, client: &Client, row: &JobRow) {
        if is_told(client) {
            let waited = row.attempted_at.unwrap_or(row.scheduled_at) - row.scheduled_at;
            let waited = waited.try_into().unwrap_or_default();
            self.meter.waited(waited);
            self.tell(client, row.id, row.attempt, Happened::Started { waited });
        }
    }

    /// Tells how long an attempt took.
    pub(super) fn worked(&self, since: Timer) {
        self.meter.worked(since);
    }

    fn tell(&self, client: &Client, id: JobId, attempt: u16, happened: Happened) {
        self.meter.count(&happened);
        if client.bus().is_heard() {
            let (kind, queue) = (self.kind.clone(), self.queue.clone());
            client.bus().tell(Event { id, kind, queue, attempt, happened });
        }
    }
}

/// Tells what became of results that were sent: `finished` is what became of them.
pub(super) fn ended(client: &Client, batch: Vec<Ended>, finished: &Counted) {
    let is_told = is_told(client);
    let mut dropped = Vec::new();
    for ended in batch {
        match finished.state(ended.result.id) {
            None if !ended.may_be_completed => {
                dropped.push((ended.result.id, ended.result.attempt));
                stale(client, &ended);
            }
            _ if !is_told => {}
            state => {
                // What was completed already was so before its result.
                let state = state.unwrap_or(JobState::Completed);
                let happened = happened(ended.result.verdict, state);
                ended.track.tell(client, ended.result.id, ended.result.attempt, happened);
            }
        }
    }
    warn_of_stale(&dropped);
}

/// Tells of a result that was dropped.
pub(super) fn stale(client: &Client, ended: &Ended) {
    let (id, attempt) = (ended.result.id, ended.result.attempt);
    tracing::debug!(job.id = %id, job.kind = %ended.track.kind, attempt, "stale result dropped");
    ended.track.tell(client, id, attempt, Happened::Stale);
}

/// One line for all results that were dropped together: a lost lease can have thousands.
pub(super) fn warn_of_stale(dropped: &[(JobId, u16)]) {
    match *dropped {
        [] => {}
        [(id, attempt)] => tracing::warn!(job.id = %id, attempt, "stale result dropped"),
        [(id, _), ..] => tracing::warn!(results = dropped.len(), first.job.id = %id, "stale results dropped"),
    }
}

/// Whether anybody counts or listens. Else nothing is made up to be told.
fn is_told(client: &Client) -> bool {
    metrics::IS_COUNTING || client.bus().is_heard()
}

/// What a verdict came to, given the state that the job is in since.
fn happened(verdict: Verdict, state: JobState) -> Happened {
    let is_discarded = state == JobState::Discarded;
    match verdict {
        _ if state == JobState::Completed => Happened::Completed,
        Verdict::Retry { error, .. } if is_discarded => Happened::Discarded { reason: error },
        Verdict::Snooze { .. } | Verdict::GiveBack if is_discarded => Happened::Discarded { reason: TAKEN.to_owned() },
        Verdict::Complete { .. } => Happened::Completed,
        Verdict::Retry { delay, error } => Happened::Retried { after: delay, error: Some(error) },
        Verdict::Snooze { delay } => Happened::Snoozed { after: delay },
        Verdict::GiveBack => Happened::GivenBack,
        Verdict::Cancel { reason } => Happened::Cancelled { reason: Some(reason) },
        Verdict::Discard { reason } => Happened::Discarded { reason },
    }
}
