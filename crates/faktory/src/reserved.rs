//! The runs of the jobs that workers have.
//!
//! A result names the job, and not its run. So the door remembers which run it handed to which worker. A run that
//! this process does not remember is found in the database: of another process of the door, of this one before a restart, or the
//! earlier one of two jobs of one `jid` that a worker has.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use time::{Duration, OffsetDateTime};
use uniqueue::{Client, JobFilter, JobId, JobRow, JobState};
use uniqueue_admin::Admin;
use uniqueue_remote::{FetchedJob, JobRun};

use crate::payload::{Kept, OWN};
use crate::reply::Refusal;
use crate::sent::Fetched;

/// How long a run is remembered after its reservation: a late result may still count.
const LATE: Duration = Duration::minutes(10);

/// Runs whose reservation ended long ago are forgotten when the number of runs is a multiple of this.
const SWEEP_AT: usize = 1_000;

/// The most running jobs of one `jid` that are looked at, the newest first.
const MOST_ALIKE: u32 = 100;

/// A run that a worker has.
#[derive(Clone, Debug)]
pub(crate) struct Reserved {
    pub(crate) run: JobRun,
    pub(crate) attempt: u16,
    /// The members that the job's meta keeps. `None`: the job was not pushed by a client of Faktory.
    pub(crate) kept: Option<Kept>,
    until: Option<OffsetDateTime>,
}

impl From<&Fetched> for Reserved {
    fn from(Fetched { job, kept, .. }: &Fetched) -> Self {
        Self { run: job.run, attempt: job.attempt, kept: kept.clone(), until: job.reserved_until }
    }
}

/// The latest run by the `jid` of the job and the name of the worker.
#[derive(Debug, Default)]
pub(crate) struct AllReserved(Mutex<HashMap<(String, String), Reserved>>);

impl AllReserved {
    pub(crate) fn add(&self, fetched: &Fetched, wid: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len().is_multiple_of(SWEEP_AT) {
            let ended = OffsetDateTime::now_utc() - LATE;
            all.retain(|_, reserved| reserved.until.is_some_and(|until| until > ended));
        }
        all.insert((fetched.jid.clone(), wid.to_owned()), fetched.into());
    }

    /// The latest run of a job that a worker has.
    pub(crate) async fn find(&self, client: &Client, jid: &str, wid: &str) -> Result<Option<Reserved>, Refusal> {
        if let Some(known) = self.known(jid, wid) {
            return Ok(Some(known));
        }
        let running = JobFilter::new().states(JobState::Running).limit(MOST_ALIKE);
        let mut rows = match jid.parse::<JobId>() {
            Ok(id) => client.jobs(running.clone().ids([id])).await?,
            Err(_) => Vec::new(),
        };
        if rows.is_empty() {
            rows = client.jobs(running.meta(serde_json::json!({ OWN: { "jid": jid } }))).await?;
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let runners = Admin::new(client).runners().await?;
        let is_its = |row: &&JobRow| runners.iter().any(|one| row.worker == Some(one.id) && one.name == wid);
        Ok(rows.iter().find(is_its).map(|row| Reserved::from(&Fetched::from(FetchedJob::from(row)))))
    }

    fn known(&self, jid: &str, wid: &str) -> Option<Reserved> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&(jid.to_owned(), wid.to_owned())).cloned()
    }

    /// Forgets a run that is over.
    pub(crate) fn remove(&self, jid: &str, wid: &str, run: JobRun) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (jid.to_owned(), wid.to_owned());
        if all.get(&key).is_some_and(|reserved| reserved.run == run) {
            all.remove(&key);
        }
    }
}
