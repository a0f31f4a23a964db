//! The runs of the jobs that workers have, by `jid`.
//!
//! A result names the job, and not its run. So the door remembers which run it handed to which worker. A job that another
//! process of the door handed out, or this one before it was started anew, is found in the database.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use time::{Duration, OffsetDateTime};
use uniqueue::{Client, JobFilter, JobId, JobRow, JobState};
use uniqueue_admin::Admin;
use uniqueue_remote::JobRun;
use uuid::Uuid;

use crate::payload::{Kept, OWN, kept};
use crate::reply::Refusal;
use crate::sent::Fetched;

/// How long a run is remembered after its reservation: a late result may still count.
const LATE: Duration = Duration::minutes(10);

/// A run that a worker has.
#[derive(Clone, Debug)]
pub(crate) struct Reserved {
    pub(crate) run: JobRun,
    pub(crate) attempt: u16,
    /// The members that the job's meta keeps. `None`: the job was not pushed by a client of Faktory.
    pub(crate) kept: Option<Kept>,
    wid: String,
    until: OffsetDateTime,
}

#[derive(Debug, Default)]
pub(crate) struct AllReserved(Mutex<HashMap<String, Vec<Reserved>>>);

impl AllReserved {
    pub(crate) fn add(&self, fetched: &Fetched, wid: &str) {
        let Fetched { job, kept, jid } = fetched;
        let reserved = Reserved {
            run: job.run,
            attempt: job.attempt,
            kept: kept.clone(),
            wid: wid.to_owned(),
            until: job.reserved_until,
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(jid.clone()).or_default().push(reserved);
    }

    /// The latest run of a job that a worker has.
    pub(crate) async fn find(&self, client: &Client, jid: &str, wid: &str) -> Result<Option<Reserved>, Refusal> {
        if let Some(known) = self.known(jid, wid) {
            return Ok(Some(known));
        }
        let row = match jid.parse::<JobId>() {
            Ok(id) => client.job(id).await?.filter(|row| row.state == JobState::Running),
            Err(_) => None,
        };
        let row = match row {
            Some(row) => Some(row),
            None => {
                let filter =
                    JobFilter::new().states(JobState::Running).meta(serde_json::json!({ OWN: { "jid": jid } }));
                client.jobs(filter.limit(1)).await?.pop()
            }
        };
        let Some(row) = row else { return Ok(None) };
        Ok(is_of(client, &row, wid).await?.then(|| Reserved {
            run: JobRun { id: row.id, run: row.run },
            attempt: row.attempt,
            kept: kept(&row.meta),
            wid: wid.to_owned(),
            until: row.scheduled_at,
        }))
    }

    fn known(&self, jid: &str, wid: &str) -> Option<Reserved> {
        let jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.get(jid)?.iter().rev().find(|reserved| reserved.wid == wid).cloned()
    }

    /// Forgets a run that is over.
    pub(crate) fn remove(&self, jid: &str, run: JobRun) {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runs) = jobs.get_mut(jid) {
            runs.retain(|reserved| reserved.run != run);
            if runs.is_empty() {
                jobs.remove(jid);
            }
        }
    }

    /// Forgets runs whose reservation ended long ago.
    pub(crate) fn forget(&self, now: OffsetDateTime) {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.retain(|_, runs| {
            runs.retain(|reserved| reserved.until + LATE > now);
            !runs.is_empty()
        });
    }
}

/// Whether a worker of this name runs a job.
async fn is_of(client: &Client, row: &JobRow, wid: &str) -> Result<bool, Refusal> {
    let Some(worker): Option<Uuid> = row.worker else { return Ok(false) };
    let runners = Admin::new(client).runners().await?;
    Ok(runners.iter().any(|runner| runner.id == worker && runner.name == wid))
}
