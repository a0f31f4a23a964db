//! The runs that workers fetched through this door, and how long each is reserved.
//!
//! OJS's workers name a job and not its run, so the door remembers the run: a report counts only for the run that the same
//! worker fetched. A run that this process does not remember, after a restart or from another process, is read from the
//! job's row.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use uniqueue::{Client, JobId, JobRow, JobState};
use uniqueue_admin::Admin;
use uniqueue_remote::JobRun;

use crate::details::Details;
use crate::problem::Problem;
use crate::retry::RetryPolicy;

/// How many runs are remembered before those are dropped whose reservation has ended.
const SWEEP_AT: usize = 10_000;

/// The longest reservation that the core gives.
pub(crate) const LONGEST: Duration = Duration::from_secs(86_400);

/// The reservation of a job that names none.
pub(crate) const DEFAULT_RESERVATION: Duration = Duration::from_secs(1_800);

/// The worker of a fetch that names none.
pub(crate) const NAMELESS: &str = "ojs";

/// A run, with the data that its reports need.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) run: JobRun,
    /// `None`: the fetch gave no name.
    pub(crate) worker: Option<String>,
    pub(crate) attempt: u16,
    pub(crate) details: Details,
    /// When the attempt takes too long.
    pub(crate) deadline: Option<Instant>,
    /// The end of the reservation.
    pub(crate) until: Instant,
}

impl Held {
    /// The retry policy of the job, if it has one.
    pub(crate) fn policy(&self) -> Option<RetryPolicy> {
        RetryPolicy::read(self.details.retry.as_ref()?).ok()
    }

    /// How long the job is reserved from now on.
    pub(crate) fn reserve(&self, asked: Option<Duration>) -> Duration {
        let left = self.deadline.map(|at| at.saturating_duration_since(Instant::now()));
        reserve(&self.details, asked, left)
    }
}

/// How long a job is reserved: as it says itself, else as the request does. Never past its deadline by more than a second, which
/// is the shortest reservation. `left`: the time until the deadline.
pub(crate) fn reserve(details: &Details, asked: Option<Duration>, left: Option<Duration>) -> Duration {
    let wanted = details.visibility().or(asked).unwrap_or(DEFAULT_RESERVATION);
    // The deadline's own task comes first, where this process lives on. In whole half seconds, so that one statement reserves
    // all jobs with the same timeout.
    let left = left.map_or(LONGEST, |left| {
        let halves = left.as_millis() / 500 + 2;
        Duration::from_millis(500 * u64::try_from(halves).unwrap_or(u64::MAX / 500))
    });
    wanted.min(left).clamp(Duration::from_secs(1), LONGEST)
}

/// The runs that this door remembers.
#[derive(Debug, Default)]
pub(crate) struct Runs(Mutex<HashMap<JobId, Held>>);

impl Runs {
    pub(crate) fn add(&self, all: impl IntoIterator<Item = Held>) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= SWEEP_AT {
            let now = Instant::now();
            held.retain(|_, run| run.until > now);
        }
        held.extend(all.into_iter().map(|run| (run.run.id, run)));
    }

    /// Forgets a run, if it is the one that is remembered.
    pub(crate) fn remove(&self, run: JobRun) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.get(&run.id).is_some_and(|known| known.run == run) {
            held.remove(&run.id);
        }
    }

    /// Notes the end of a reservation.
    pub(crate) fn extend(&self, run: JobRun, until: Instant) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = held.get_mut(&run.id).filter(|known| known.run == run) {
            known.until = until;
        }
    }

    /// The runs that take too long. They are late again after this wait, unless they are removed.
    pub(crate) fn late(&self, again: Duration) -> Vec<Held> {
        let now = Instant::now();
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let late = held.values_mut().filter(|held| held.deadline.is_some_and(|at| at <= now));
        late.map(|held| Held { deadline: held.deadline.replace(now + again), ..held.clone() }).collect()
    }

    pub(crate) fn get(&self, id: JobId) -> Option<Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// The run of an active job that a worker reports. An error if the job does not run, or another worker fetched it.
    pub(crate) async fn find(&self, client: &Client, id: JobId, worker: Option<&str>) -> Result<Held, Problem> {
        let held = match self.get(id) {
            Some(held) => held,
            None => {
                let Some(row) = client.job(id).await? else { return Err(Problem::not_found("job", &id.to_string())) };
                of_rows(client, std::slice::from_ref(&row)).await?.pop().ok_or_else(|| not_active(&row))?
            }
        };
        match (worker, &held.worker) {
            (Some(worker), Some(by)) if worker != by => {
                Err(Problem::conflict(format!("another worker has fetched job {id}")).detail("job_id", id.to_string()))
            }
            _ => Ok(held),
        }
    }
}

/// The runs of jobs' rows. Jobs that do not run have none.
pub(crate) async fn of_rows(client: &Client, rows: &[JobRow]) -> uniqueue::Result<Vec<Held>> {
    // A remote worker has a row among the runners, under its name.
    let workers: HashMap<_, _> =
        Admin::new(client).runners().await?.into_iter().map(|runner| (runner.id, runner.name)).collect();
    let held = |row: &JobRow| Held {
        run: JobRun { id: row.id, run: row.run },
        worker: row.worker.and_then(|worker| workers.get(&worker)).filter(|name| *name != NAMELESS).cloned(),
        attempt: row.attempt,
        details: Details::of(&row.meta),
        deadline: None,
        until: Instant::now(),
    };
    Ok(rows.iter().filter(|row| row.state == JobState::Running).map(held).collect())
}

/// The error of a report on a job that does not run.
pub(crate) fn not_active(row: &JobRow) -> Problem {
    let state = crate::state::state_of(row.state, &row.errors);
    Problem::conflict(format!("job {} is not active: its state is {state}", row.id))
        .detail("job_id", row.id.to_string())
        .detail("current_state", state)
        .detail("expected_state", "active")
}
