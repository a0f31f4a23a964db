//! The numbers and rows of the screen, as text.

use std::time::Duration;

use uniqueue::{GroupInfo, JobId, KeyHolder, Obstacle, QueueInfo};
use uniqueue_admin::{FailingKind, RunningJobInfo, WaitingInsert};

use crate::output::{format_duration, format_relative, printable};
use crate::queue::Status;

/// One view of the database.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// The database's time of day.
    pub(super) clock: String,
    /// How long its queries took.
    pub(super) took: Duration,
    pub(super) runners: u64,
    /// Jobs a second.
    pub(super) inserted: f64,
    pub(super) completed: f64,
    pub(super) failed: f64,
    pub(super) queues: Vec<Queue>,
    pub(super) running: Vec<Running>,
    pub(super) failing: Vec<Failing>,
    pub(super) keys: Vec<Key>,
    pub(super) waiting: Vec<Waiting>,
    /// The groups that are held up, the longest first.
    pub(super) groups: Vec<Group>,
}

#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) status: Status,
    pub(super) limit: Option<u32>,
    pub(super) runners: u64,
    /// The counted available jobs, for the sparkline. The count may have stopped early.
    pub(super) depth: u64,
    pub(super) available: String,
    pub(super) running: String,
    pub(super) scheduled: String,
    pub(super) retryable: String,
    pub(super) discarded: String,
    pub(super) oldest: Option<Duration>,
    /// How many of its groups are held up. Empty: none.
    pub(super) held_groups: String,
}

impl Queue {
    /// A queue with its groups among those that were listed. The list may have ended early.
    pub(super) fn new(queue: &QueueInfo, groups: &[GroupInfo], is_complete: bool) -> Self {
        let is_held = |group: &&GroupInfo| group.queue == queue.settings.name && group.held_by.is_some();
        let held_groups = groups.iter().filter(is_held).count();
        Self {
            name: queue.settings.name.to_string(),
            status: Status::of(queue),
            limit: queue.settings.limit,
            runners: queue.runners,
            depth: queue.available.counted(),
            available: queue.available.to_string(),
            running: queue.running.to_string(),
            scheduled: queue.scheduled.to_string(),
            retryable: queue.retryable.to_string(),
            discarded: queue.discarded.to_string(),
            oldest: queue.oldest_available_age,
            held_groups: match held_groups {
                0 => String::new(),
                held if is_complete => held.to_string(),
                held => format!("{held}+"),
            },
        }
    }
}

impl Queue {
    /// The rank of its trouble: the least comes first. Among queues of one rank, that whose oldest job waits longest.
    pub(super) fn trouble(&self) -> (u8, std::cmp::Reverse<Option<Duration>>) {
        let rank = match self.status {
            Status::NoRunner => 0,
            Status::Paused | Status::Held if self.depth > 0 => 1,
            _ if !self.held_groups.is_empty() => 2,
            Status::AtItsLimit => 3,
            Status::Waiting => 4,
            Status::Paused | Status::Held | Status::Working | Status::Idle => 5,
        };
        (rank, std::cmp::Reverse(self.oldest))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) queue: String,
    pub(super) runner: String,
    pub(super) is_alive: bool,
    pub(super) running_for: String,
    pub(super) attempt: String,
    pub(super) progress: String,
}

impl From<&RunningJobInfo> for Running {
    fn from(job: &RunningJobInfo) -> Self {
        Self {
            id: job.id.to_string(),
            kind: job.kind.to_string(),
            queue: job.queue.to_string(),
            runner: job.runner.clone().unwrap_or_else(|| "unknown".to_owned()),
            is_alive: job.runner_is_alive,
            running_for: job.running_for.map(format_duration).unwrap_or_default(),
            attempt: format!("{}/{}", job.attempt, job.max_attempts),
            progress: job.progress.as_ref().map(progress).unwrap_or_default(),
        }
    }
}

/// Writes a progress. `{"done": 3, "total": 4}` is the usual form.
fn progress(reported: &serde_json::Value) -> String {
    let number = |name: &str| reported.get(name).and_then(serde_json::Value::as_f64);
    match (number("done"), number("total")) {
        (Some(done), Some(total)) if total > 0.0 => format!("{:.0}% of {total}", done / total * 100.0),
        _ => reported.as_str().map_or_else(|| reported.to_string(), str::to_owned),
    }
}

#[derive(Clone, Debug)]
pub(super) struct Failing {
    pub(super) kind: String,
    pub(super) queues: String,
    pub(super) retryable: u64,
    pub(super) discarded: u64,
    pub(super) last: String,
    pub(super) error: String,
    pub(super) job: Option<JobId>,
}

impl Failing {
    pub(super) fn new(failing: &FailingKind, now: time::OffsetDateTime) -> Self {
        Self {
            kind: failing.kind.to_string(),
            queues: failing.queues.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            retryable: failing.retryable,
            discarded: failing.discarded,
            last: failing.last_failed_at.map(|at| format_relative(at, now)).unwrap_or_default(),
            error: failing.last_error.clone().unwrap_or_default(),
            job: failing.last_job,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) key: String,
    pub(super) kind: String,
    pub(super) state: String,
    pub(super) age: String,
    pub(super) frees: String,
    pub(super) holder: String,
}

impl From<&KeyHolder> for Key {
    fn from(held: &KeyHolder) -> Self {
        Self {
            key: held.claim.unique_key.clone(),
            kind: held.kind.to_string(),
            state: held.claim.holder_state.to_string(),
            age: format_duration(held.claim.holder_age),
            frees: held.claim.frees(),
            holder: held.claim.holder.to_string(),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) pid: i32,
    pub(super) application: String,
    pub(super) waiting_for: String,
    pub(super) waits_for: String,
    pub(super) blocker: String,
    pub(super) open_for: String,
    pub(super) query: String,
}

impl From<&WaitingInsert> for Waiting {
    fn from(waiting: &WaitingInsert) -> Self {
        let known = |text: &Option<String>| {
            text.as_deref().filter(|text| !text.is_empty()).map(|text| printable(text).into_owned())
        };
        let name = known(&waiting.blocker_application).unwrap_or_default();
        let state = known(&waiting.blocker_state).unwrap_or_default();
        let blocker = match waiting.blocker_pid {
            Some(pid) => format!("{pid} {name}, {state}"),
            None => format!("{name}, {state}"),
        };
        Self {
            pid: waiting.pid,
            application: known(&waiting.application).unwrap_or_default(),
            waiting_for: waiting.waiting_for.map(format_duration).unwrap_or_default(),
            waits_for: match &waiting.unique_key {
                Some(key) => format!("{} ({})", waiting.waits_for, printable(key)),
                None => waiting.waits_for.clone(),
            },
            blocker,
            open_for: waiting.blocker_open_for.map(format_duration).unwrap_or_default(),
            query: known(&waiting.blocker_query).unwrap_or_default(),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) group: String,
    pub(super) queue: String,
    /// Why the group starts no job: the code of `GroupInfo::held_by`, and the job that it names.
    pub(super) held_by: String,
    pub(super) until: String,
    /// How many of its jobs run, of how many that may.
    pub(super) running: String,
    pub(super) waiting: u64,
    /// How long its first job could have run already.
    pub(super) oldest: String,
    /// Its first job.
    pub(super) head: Option<JobId>,
}

impl Group {
    /// A group that is held up. `None`: nothing holds it up.
    pub(super) fn held_up(group: &GroupInfo, now: time::OffsetDateTime) -> Option<Self> {
        let limit = group.limit.map(|limit| format!("/{limit}")).unwrap_or_default();
        let age = group.head_since.map(|since| Duration::try_from(now - since).unwrap_or_default());
        Some(Self {
            group: group.group.clone(),
            queue: group.queue.to_string(),
            held_by: short(group.held_by.as_ref()?),
            until: group.held_until.map(|until| format_relative(until, now)).unwrap_or_default(),
            running: format!("{}{limit}", group.running),
            waiting: group.waiting,
            oldest: age.map(format_duration).unwrap_or_default(),
            head: group.head,
        })
    }
}

/// An obstacle in a few words.
fn short(obstacle: &Obstacle) -> String {
    match obstacle.details.get("job").and_then(|job| job.as_str()) {
        Some(job) => format!("{}, job {job}", obstacle.code),
        None => obstacle.code.to_string(),
    }
}
