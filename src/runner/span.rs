//! The span of an attempt.
//!
//! | field | |
//! |---|---|
//! | `job.id`, `job.kind`, `queue`, `attempt` | which attempt it is |
//! | `traceparent` | the trace context in the job's meta, where there is one |
//! | `outcome` | at the end: `completed`, `retried`, `snoozed`, `cancelled`, `discarded`, `given_back` |
//! | `otel.name`, `otel.kind`, `otel.status_code`, `otel.status_description` | what OpenTelemetry calls these things |

use serde_json::Value;
use tracing::Span;
use tracing::field::Empty;

use super::verdict;
use crate::job::JobRow;
use crate::store::Verdict;
use crate::trace;

/// The span in which a job is worked, in the trace of the span that inserted it.
pub(super) fn of(row: &JobRow) -> Span {
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

/// Records how the attempt ended. What was completed in a transaction of the worker's counts as completed: whether
/// it committed is known only when the span is over, and then told by the event.
pub(super) fn ended(span: &Span, row: &JobRow, verdict: &Verdict) {
    let is_completed_in = verdict::is_completed_in(verdict);
    let outcome = match verdict {
        Verdict::Complete { .. } => "completed",
        Verdict::Retry { .. } if is_completed_in => "completed",
        Verdict::Retry { .. } if row.attempt >= row.max_attempts => "discarded",
        Verdict::Retry { .. } => "retried",
        Verdict::Snooze { .. } => "snoozed",
        Verdict::GiveBack => "given_back",
        Verdict::Cancel { .. } => "cancelled",
        Verdict::Discard { .. } => "discarded",
    };
    span.record("outcome", outcome);
    match verdict {
        Verdict::Retry { error: reason, .. } | Verdict::Discard { reason } if !is_completed_in => {
            span.record("otel.status_code", "ERROR");
            span.record("otel.status_description", reason.as_str());
        }
        Verdict::Complete { .. } | Verdict::Retry { .. } | Verdict::Discard { .. } => {
            span.record("otel.status_code", "OK");
        }
        Verdict::Snooze { .. } | Verdict::GiveBack | Verdict::Cancel { .. } => {}
    }
}
