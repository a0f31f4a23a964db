//! Jobs that no fetch can start, whatever the reason: set aside, so that they hold up no other job.
//!
//! ```text
//! a fetch fails ─▶ the next jobs are tried, each by itself, and nothing of it stays
//!                   ├─ fine ─▶ fetched, without the others
//!                   └─ refused, damaged, slow, or large where the fetch was too slow ─▶ set aside
//! set aside ─tried again─▶ fine ─▶ fetched as any other; alone where it is large or slow
//!                      │            └─ that fails twice, and it is large ─▶ discarded
//!                      ├─ damaged three times, or twice too large to be read in time ─▶ discarded
//!                      └─ refused or slow ─▶ set aside for twice as long
//! ```
//!
//! Invariants:
//! - A job is discarded only for a damaged value or its size: a single statement for this job failed more than once, while
//!   the database answered other statements. An error that may pass by itself, such as one of the application's trigger,
//!   costs no job.
//! - Jobs are tried within half of a fetch's time. So the job at fault is set aside within a lease, and the jobs that were
//!   fetched with it go on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::shared::Shared;
use crate::error::{Error, Result};
use crate::maintenance::named;
use crate::store::{self, QueueDemand, Trial, Tried};
use crate::words::ident::QueueName;

/// The most jobs that are set aside. Beyond it their queue is at fault, and is fetched apart from the others.
const MOST: usize = 1_000;

/// A job is discarded after this many trials in a row in which its row could not be read.
const MAX_UNREADABLE: u32 = 3;

/// A job is discarded after this many trials, or fetches of this job alone, that were too slow.
const MAX_SLOW: u32 = 2;

/// From this size on a row can be the reason why an answer does not come in time.
const LARGE: u64 = 1 << 20;

/// A row that cannot be read is tried again this soon.
const BETWEEN_READS: Duration = Duration::from_millis(200);

/// The first wait of a job that the database refuses to start. It doubles up to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The longest wait of a job that the database does not start in time. To try it takes nearly half a lease.
const LONGEST_WAIT_OF_SLOW: Duration = Duration::from_secs(600);

/// A job that is to be discarded, and is locked until its wait is this long, is tried again first.
const LONG_LOCK: Duration = Duration::from_secs(8);

/// How long a job is left alone that the database refuses to discard.
const UNTOUCHABLE: Duration = Duration::from_secs(600);

/// The jobs that this runner's fetches leave out.
#[derive(Default)]
pub(super) struct SetAside {
    jobs: BTreeMap<Uuid, Culprit>,
}

struct Culprit {
    queue: QueueName,
    next: NextTrial,
    /// When that is due.
    at: Instant,
    wait: Duration,
    /// In how many trials in a row its row could not be read.
    unreadable: u32,
    /// How many trials, and fetches of this job alone, were too slow or failed.
    slow: u32,
}

enum NextTrial {
    /// To be tried.
    Try,
    /// To be fetched alone, since it is large or slow.
    Fetch { bytes: u64 },
    /// To be discarded.
    Discard { reason: String },
}

/// The result of a search for the job at fault.
pub(super) struct CulpritSearch {
    pub(super) set_aside: usize,
    /// How many jobs can be started as far as they were tried. Where all were tried: any number.
    pub(super) fine: usize,
}

/// A job to fetch alone.
pub(super) struct Alone {
    pub(super) id: Uuid,
    pub(super) queue: QueueName,
    /// Whether this is its last try.
    pub(super) is_last: bool,
}

impl SetAside {
    /// The jobs that a fetch leaves out, but for this one.
    pub(super) fn ids(&self, but: Option<&Alone>) -> Vec<Uuid> {
        self.jobs.keys().copied().filter(|id| but.is_none_or(|alone| alone.id != *id)).collect()
    }

    /// How long until something is to be done. A job that is to be fetched alone, and whose time has come, waits for a slot.
    pub(super) fn due_in(&self, now: Instant) -> Duration {
        let waits_for_slot = |job: &&Culprit| matches!(job.next, NextTrial::Fetch { .. }) && job.at <= now;
        let jobs = self.jobs.values().filter(|job| !waits_for_slot(job));
        jobs.map(|job| job.at.saturating_duration_since(now)).min().unwrap_or(Duration::MAX)
    }

    /// The jobs that a fetch of one suspect leaves out: all but those that wait for a fetch of their own.
    pub(super) fn ids_but_to_fetch(&self) -> Vec<Uuid> {
        let is_tried = |job: &Culprit| !matches!(job.next, NextTrial::Fetch { .. });
        self.jobs.iter().filter(|(_, job)| is_tried(job)).map(|(id, _)| *id).collect()
    }

    /// The next job to fetch alone, of those whose queue wants one.
    pub(super) fn next_alone(&self, now: Instant, wants: impl Fn(&QueueName) -> bool) -> Option<Alone> {
        let due = |job: &Culprit| matches!(job.next, NextTrial::Fetch { .. }) && job.at <= now && wants(&job.queue);
        let (id, job) = self.jobs.iter().find(|(_, job)| due(job))?;
        Some(Alone { id: *id, queue: job.queue.clone(), is_last: job.slow + 1 >= MAX_SLOW })
    }

    /// Tries the next jobs after a fetch of them failed, and sets those aside that may be the reason.
    pub(super) async fn find(
        &mut self,
        shared: &Shared,
        worker: Uuid,
        slots: &[QueueDemand],
        may_be_size: bool,
    ) -> Result<CulpritSearch> {
        let limit = shared.connections.timeout();
        let (began, before) = (Instant::now(), self.jobs.len());
        let (mut fine, mut by_reason) = (0, BTreeMap::<String, Vec<Uuid>>::new());
        let mut left = self.next_jobs(shared, slots).await?;
        while !left.is_empty() && began.elapsed() < limit / 2 && self.jobs.len() < MOST {
            let ids: Vec<_> = left.keys().copied().collect();
            let step = limit / 10;
            let tried = match try_jobs(shared, worker, &ids, step).await {
                Ok(tried) if !tried.is_empty() => tried,
                Err(error) if self.jobs.len() == before => return Err(error),
                Ok(_) | Err(_) => break,
            };
            for tried in tried {
                // The time of the statement may have gone by with the jobs before it.
                let is_over = matches!(tried.trial, Trial::OutOfTime { .. }) && tried.took < step / 2;
                let id = tried.id;
                if !is_over && let Some(queue) = left.remove(&id) {
                    match self.note_first(tried, queue, may_be_size, step) {
                        Some(reason) => by_reason.entry(reason).or_default().push(id),
                        None => fine += 1,
                    }
                }
            }
        }
        for (reason, ids) in by_reason {
            tracing::error!(jobs = named(&ids), reason, "jobs that stop a fetch are set aside");
        }
        Ok(CulpritSearch { set_aside: self.jobs.len() - before, fine: if left.is_empty() { usize::MAX } else { fine } })
    }

    async fn next_jobs(&self, shared: &Shared, slots: &[QueueDemand]) -> Result<BTreeMap<Uuid, QueueName>> {
        let (statements, kinds) = (shared.client.statements(), shared.workers.kinds.as_deref());
        let except = self.ids(None);
        let mut connection = shared.connections.connection().await?;
        let asking = store::next_jobs(&mut connection, statements, slots, kinds, &except);
        let next = shared.connections.answer(asking).await;
        Ok(connection.settle(next)?.into_iter().collect())
    }

    /// Notes the first trial of a job. Answers why the job is set aside. `None`: it is not.
    fn note_first(&mut self, tried: Tried, queue: QueueName, may_be_size: bool, step: Duration) -> Option<String> {
        let now = Instant::now();
        let is_unreadable = tried.is_unreadable();
        let mut job = Culprit { queue, next: NextTrial::Try, at: now, wait: FIRST_WAIT, unreadable: 0, slow: 0 };
        let reason = match tried.trial {
            Trial::Fine { bytes } | Trial::Locked { bytes }
                if may_be_size && (bytes >= LARGE || tried.took > step / 2) =>
            {
                (job.next, job.wait) = (NextTrial::Fetch { bytes }, Duration::ZERO);
                if bytes >= LARGE {
                    "large, so each is fetched alone"
                } else {
                    "slow to start, so each is fetched alone"
                }
                .to_owned()
            }
            Trial::Gone | Trial::Fine { .. } | Trial::Locked { .. } => return None,
            Trial::OutOfTime { .. } => format!("cannot be started within {step:?}"),
            Trial::Refused { problem, .. } => {
                if is_unreadable {
                    (job.unreadable, job.wait) = (1, BETWEEN_READS);
                }
                problem
            }
        };
        job.at = now + job.wait;
        self.jobs.insert(tried.id, job);
        Some(reason)
    }

    /// Tries the jobs again that are due, and discards those that are to be.
    pub(super) async fn tend(&mut self, shared: &Shared, worker: Uuid) -> Result<()> {
        let now = Instant::now();
        let is_due = |job: &Culprit| matches!(job.next, NextTrial::Try) && job.at <= now;
        let due: Vec<_> = self.jobs.iter().filter(|(_, job)| is_due(job)).map(|(id, _)| *id).collect();
        if !due.is_empty() {
            let limit = shared.connections.timeout() / 10 * 9;
            let tried = try_jobs(shared, worker, &due, limit).await;
            if tried.is_err() {
                let due = self.jobs.values_mut().filter(|job| is_due(job));
                due.for_each(|job| job.again(Instant::now(), FIRST_WAIT));
            }
            for tried in tried? {
                self.note_again(tried, limit);
            }
        }
        let is_to_discard = |(id, job): (&Uuid, &Culprit)| match &job.next {
            NextTrial::Discard { reason } if job.at <= now => Some((*id, reason.clone())),
            _ => None,
        };
        let to_discard: Vec<_> = self.jobs.iter().filter_map(is_to_discard).collect();
        for (id, reason) in to_discard {
            self.discard(shared, id, &reason).await?;
        }
        Ok(())
    }

    /// Notes a further trial.
    fn note_again(&mut self, tried: Tried, limit: Duration) {
        let (now, id) = (Instant::now(), tried.id);
        let is_unreadable = tried.is_unreadable();
        let Some(job) = self.jobs.get_mut(&id) else { return };
        match tried.trial {
            Trial::Gone => drop(self.jobs.remove(&id)),
            Trial::Locked { .. } => job.again(now, FIRST_WAIT),
            Trial::Fine { bytes } if bytes >= LARGE || tried.took > limit / 8 => {
                (job.next, job.at, job.unreadable) = (NextTrial::Fetch { bytes }, now, 0);
            }
            Trial::Fine { .. } => {
                tracing::info!(job.id = %id, queue = %job.queue, "a job that was set aside can be started");
                self.jobs.remove(&id);
            }
            // Others used up the time.
            Trial::OutOfTime { .. } if tried.took < limit / 2 => job.again(now, Duration::ZERO),
            Trial::OutOfTime { bytes: None } => {
                job.slow += 1;
                job.again_or_discard(now, FIRST_WAIT, || format!("the job's row cannot be read within {limit:?}"));
            }
            Trial::OutOfTime { .. } => job.again_later(now, LONGEST_WAIT_OF_SLOW),
            Trial::Refused { problem, .. } if is_unreadable => {
                job.unreadable += 1;
                job.again_or_discard(now, BETWEEN_READS, || format!("the job's row cannot be read: {problem}"));
            }
            Trial::Refused { problem, .. } => {
                tracing::debug!(job.id = %id, problem, "the database still refuses to start a job");
                job.again_later(now, LONGEST_WAIT);
            }
        }
    }

    /// Notes that a fetch of this job alone took jobs, or none: it, where `has_it`.
    pub(super) fn fetched_alone(&mut self, alone: &Alone, jobs: usize, has_it: bool) {
        if has_it {
            self.jobs.remove(&alone.id);
        } else if jobs == 0 {
            // Perhaps it is gone or locked, or its queue is paused.
            self.postpone(alone);
        }
    }

    /// Tries a job again later that was to be fetched alone.
    pub(super) fn postpone(&mut self, alone: &Alone) {
        if let Some(job) = self.jobs.get_mut(&alone.id) {
            job.next = NextTrial::Try;
            job.again_later(Instant::now(), LONGEST_WAIT);
        }
    }

    /// Notes that a fetch of this job alone failed, while the database answers other statements.
    pub(super) fn failed_alone(&mut self, alone: &Alone, error: &Error, rest: Duration) {
        let Some(job) = self.jobs.get_mut(&alone.id) else { return };
        let now = Instant::now();
        match job.next {
            NextTrial::Fetch { bytes } if bytes >= LARGE => {
                tracing::warn!(job.id = %alone.id, %error, bytes, "a large job could not be fetched alone");
                job.slow += 1;
                job.again_or_discard(now, rest, || {
                    format!("the job's row cannot be fetched: it has {bytes} bytes: {error}")
                });
            }
            _ => {
                job.next = NextTrial::Try;
                job.again_later(now, LONGEST_WAIT_OF_SLOW);
            }
        }
    }

    async fn discard(&mut self, shared: &Shared, id: Uuid, reason: &str) -> Result<()> {
        for keep_errors in [true, false] {
            let mut connection = shared.connections.connection().await?;
            let statements = shared.client.statements();
            let discarding = store::discard_unreadable(&mut connection, statements, id, reason, keep_errors);
            let discarded = shared.connections.answer(discarding).await;
            match connection.settle(discarded) {
                Ok(true) => {
                    tracing::error!(job.id = %id, reason, "a job that no fetch can start is discarded");
                    self.jobs.remove(&id);
                    return Ok(());
                }
                // The server may still be at work on a fetch that was given up. A lock that lasts longer may be that of a
                // session which mends the row.
                Ok(false) => {
                    match self.jobs.get_mut(&id) {
                        Some(job) if job.wait < LONG_LOCK => job.again_later(Instant::now(), LONGEST_WAIT),
                        _ => self.try_before_discard(id, FIRST_WAIT),
                    }
                    return Ok(());
                }
                Err(error) if error.is_of_server() => {
                    if let Some(job) = self.jobs.get_mut(&id) {
                        job.again(Instant::now(), FIRST_WAIT);
                    }
                    return Err(error);
                }
                Err(error) => tracing::error!(job.id = %id, %error, keep_errors, "a job cannot be discarded"),
            }
        }
        tracing::error!(job.id = %id, reason, "a job that cannot be discarded is left out of this runner's fetches");
        self.try_before_discard(id, UNTOUCHABLE);
        Ok(())
    }

    /// Tries a job once more before it is discarded, since its row may have been mended meanwhile. One more failure dooms it.
    fn try_before_discard(&mut self, id: Uuid, wait: Duration) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.next = NextTrial::Try;
            job.again(Instant::now(), wait);
        }
    }
}

impl Culprit {
    fn again(&mut self, now: Instant, wait: Duration) {
        (self.at, self.wait) = (now + wait, wait);
    }

    /// Waits for twice as long as before.
    fn again_later(&mut self, now: Instant, longest: Duration) {
        self.unreadable = 0;
        self.again(now, (self.wait * 2).clamp(FIRST_WAIT, longest));
    }

    /// Waits after a failure. After too many of them the job is discarded.
    fn again_or_discard(&mut self, now: Instant, wait: Duration, reason: impl FnOnce() -> String) {
        if self.unreadable < MAX_UNREADABLE && self.slow < MAX_SLOW {
            return self.again(now, wait);
        }
        self.next = NextTrial::Discard { reason: reason() };
        self.again(now, Duration::ZERO);
    }
}

async fn try_jobs(shared: &Shared, worker: Uuid, ids: &[Uuid], limit: Duration) -> Result<Vec<Tried>> {
    let mut connection = shared.connections.connection().await?;
    let trying = store::try_jobs_within(&mut connection, shared.client.statements(), worker, ids, limit);
    let tried = shared.connections.answer(trying).await;
    connection.settle(tried)
}
