//! When a job did, or will do, what matters in its state.

use time::OffsetDateTime;
use uniqueue::{JobRow, JobState};

use crate::output::{Style, ago, span};

/// A phrase for a list: `waits 5m`, `runs 2h 5m`, `in 20s`, `3d ago`.
pub(super) fn when(job: &JobRow, now: OffsetDateTime) -> String {
    let since = |verb: &str, at: OffsetDateTime| format!("{verb} {}", span((now - at).try_into().unwrap_or_default()));
    match job.state {
        JobState::Available => since("waits", job.scheduled_at),
        JobState::Pending => since("held", job.created_at),
        JobState::Running => since("runs", job.attempted_at.unwrap_or(job.scheduled_at)),
        JobState::Retryable | JobState::Scheduled => match job.scheduled_at > now {
            true => ago(job.scheduled_at, now),
            false => since("due", job.scheduled_at),
        },
        JobState::Cancelled | JobState::Completed | JobState::Discarded => {
            job.finalized_at.map(|at| ago(at, now)).unwrap_or_default()
        }
    }
}

/// How a state is coloured.
pub(super) fn style(state: JobState) -> Style {
    match state {
        JobState::Discarded => Style::Bad,
        JobState::Retryable => Style::Warn,
        JobState::Running => Style::Good,
        JobState::Cancelled | JobState::Completed => Style::Faint,
        JobState::Available | JobState::Pending | JobState::Scheduled => Style::Plain,
    }
}
