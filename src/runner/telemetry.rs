//! Telemetry of jobs as they go through the runner: events to subscribers, counts to metrics, and a span of each attempt.
//!
//! | field of the span | |
//! |---|---|
//! | `job.id`, `job.kind`, `queue`, `attempt` | which attempt it is |
//! | `traceparent` | the trace context in the job's meta, where there is one |
//! | `outcome` | at the end: `completed`, `retried`, `snoozed`, `cancelled`, `discarded`, `given_back` |
//! | `otel.name`, `otel.kind`, `otel.status_code`, `otel.status_description` | the same in OpenTelemetry's terms |

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::Value;
use tracing::Span;
use tracing::field::Empty;

use super::working::verdict;
use crate::client::Client;
use crate::client::history::Series;
use crate::metrics::{self, JobMeter, RunnerMeter};
use crate::store::Verdict;
use crate::words::event::{Event, Happened};
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::job::JobRow;
use crate::words::tally::Tally;
use crate::words::trace;

/// The telemetry of a runner.
pub(super) struct Telemetry {
    pub(super) runner: RunnerMeter,
    /// One for each kind and queue that the runner works, made at its start, so that an event looks nothing up.
    by_kind: HashMap<String, Vec<Arc<JobTelemetry>>>,
}

impl Telemetry {
    pub(super) fn new(kinds: &[String], queues: &[QueueName]) -> Self {
        let of_kind = |kind: &String| {
            let of_queue = |queue: &QueueName| Arc::new(JobTelemetry::new(&Kind::from_stored(kind), queue));
            (kind.clone(), queues.iter().map(of_queue).collect())
        };
        Self { runner: RunnerMeter::default(), by_kind: kinds.iter().map(of_kind).collect() }
    }

    /// The telemetry of a fetched job.
    pub(super) fn of(&self, kind: &Kind, queue: &QueueName) -> Arc<JobTelemetry> {
        let of_kind = self.by_kind.get(kind.as_str()).map_or(&[][..], Vec::as_slice);
        let known = of_kind.iter().find(|job| job.queue == *queue);
        // The job was fetched by kind and queue, so both are known.
        known.map_or_else(|| Arc::new(JobTelemetry::new(kind, queue)), Arc::clone)
    }
}

/// The telemetry of jobs of one kind in one queue.
pub(super) struct JobTelemetry {
    pub(super) kind: Kind,
    queue: QueueName,
    meter: JobMeter,
    /// Made at the first result for which there was room.
    series: OnceLock<Arc<Series>>,
}

impl JobTelemetry {
    fn new(kind: &Kind, queue: &QueueName) -> Self {
        Self { kind: kind.clone(), queue: queue.clone(), meter: JobMeter::new(kind, queue), series: OnceLock::new() }
    }

    /// Tells that an attempt begins.
    pub(super) fn started(&self, client: &Client, row: &JobRow) {
        if is_heard(client) {
            let waited = waited(row);
            self.meter.waited(waited);
            self.tell(client, row.id, row.attempt, Happened::Started { waited });
        }
    }

    /// Tells how long an attempt took.
    pub(super) fn worked(&self, since: Instant) {
        self.meter.worked(since);
    }

    /// Counts a result in the history. After a batch of results the client is told
    /// ([`note_counts`](Client::note_counts)).
    pub(super) fn count(&self, client: &Client, count: impl FnOnce(&mut Tally)) {
        if let Some(series) = self.series.get() {
            series.count(count);
        } else if let Some(series) = client.history_counter().series(&self.kind, &self.queue) {
            self.series.get_or_init(|| series).count(count);
        }
    }

    /// Tells of an event of a job: counts it, and sends it to subscribers.
    pub(super) fn tell(&self, client: &Client, id: JobId, attempt: u16, happened: Happened) {
        self.meter.count(&happened);
        if client.bus().is_heard() {
            let (kind, queue) = (self.kind.clone(), self.queue.clone());
            client.bus().tell(Event { id, kind, queue, attempt, happened });
        }
    }
}

/// A job that was due at -infinity is read as due in the year 0. Its wait must not outweigh all others in a sum.
const LONGEST_WAIT: Duration = Duration::from_secs(10 * 365 * 86_400);

/// How long a job waited for this attempt after it was due.
pub(super) fn waited(row: &JobRow) -> Duration {
    let waited = row.attempted_at.unwrap_or(row.scheduled_at) - row.scheduled_at;
    Duration::try_from(waited).unwrap_or_default().min(LONGEST_WAIT)
}

/// Whether metrics are counted or a subscriber listens. Otherwise no event is made.
pub(super) fn is_heard(client: &Client) -> bool {
    metrics::IS_COUNTING || client.bus().is_heard()
}

/// The span in which a job is worked, in the trace of the span that inserted it.
pub(super) fn span(row: &JobRow) -> Span {
    let span = tracing::info_span!(
        "job",
        otel.name = %row.kind,
        otel.kind = "consumer",
        otel.status_code = Empty,
        otel.status_description = Empty,
        job.id = %row.id,
        job.kind = %row.kind,
        queue = %row.queue,
        attempt = row.attempt,
        traceparent = Empty,
        outcome = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    if let Some(traceparent) = row.meta.get(trace::TRACEPARENT).and_then(Value::as_str) {
        span.record("traceparent", traceparent);
    }
    #[cfg(feature = "opentelemetry")]
    trace::adopt(&span, &row.meta);
    span
}

/// Records how the attempt ended. A job that was completed in a transaction of the worker's counts as completed: whether
/// it committed is known only when the span is over, and then told by the event.
pub(super) fn end_span(span: &Span, row: &JobRow, verdict: &Verdict) {
    let is_completed_in = verdict::is_completed_in(verdict);
    let outcome = match verdict {
        Verdict::Complete { .. } => "completed",
        Verdict::Retry { .. } if is_completed_in => "completed",
        Verdict::Retry { .. } if row.attempt >= row.max_attempts => "discarded",
        Verdict::Retry { .. } => "retried",
        Verdict::Snooze { .. } => "snoozed",
        Verdict::GiveBack { .. } => "given_back",
        Verdict::Cancel { .. } => "cancelled",
        Verdict::Discard { .. } => "discarded",
    };
    span.record("outcome", outcome);
    match verdict {
        Verdict::Retry { error: reason, .. } | Verdict::Discard { reason } if !is_completed_in => {
            span.record("otel.status_code", "ERROR");
            span.record("otel.status_description", reason.text.as_str());
        }
        Verdict::Complete { .. } | Verdict::Retry { .. } | Verdict::Discard { .. } => {
            span.record("otel.status_code", "OK");
        }
        Verdict::Snooze { .. } | Verdict::GiveBack { .. } | Verdict::Cancel { .. } => {}
    }
}
