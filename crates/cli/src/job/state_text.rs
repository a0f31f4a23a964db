//! How long a job has been in its state, or when it is due.

use time::OffsetDateTime;
use uniqueue::{JobRow, JobState};

use crate::output::{Style, format_duration, format_relative};

/// A phrase for a list: `waits 5m`, `runs 2h 5m`, `in 20s`, `3d ago`.
pub(super) fn time_in_state(job: &JobRow, now: OffsetDateTime) -> String {
    let since = |verb: &str, at: OffsetDateTime| {
        format!("{verb} {}", format_duration((now - at).try_into().unwrap_or_default()))
    };
    match job.state {
        JobState::Available => since("waits", job.scheduled_at),
        JobState::Pending => since("held", job.created_at),
        JobState::Running => since("runs", job.attempted_at.unwrap_or(job.scheduled_at)),
        JobState::Retryable | JobState::Scheduled => match job.scheduled_at > now {
            true => format_relative(job.scheduled_at, now),
            false => since("due", job.scheduled_at),
        },
        JobState::Cancelled | JobState::Completed | JobState::Discarded => {
            job.finalized_at.map(|at| format_relative(at, now)).unwrap_or_default()
        }
    }
}

/// The style of a state.
pub(super) fn state_style(state: JobState) -> Style {
    match state {
        JobState::Discarded => Style::Bad,
        JobState::Retryable => Style::Warn,
        JobState::Running => Style::Good,
        JobState::Cancelled | JobState::Completed => Style::Faint,
        JobState::Available | JobState::Pending | JobState::Scheduled => Style::Plain,
    }
}
