//! The jobs: each kind ends its attempt in another way.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::AssertSqlSafe;
use uniqueue::{BoxError, Job, Outcome, RunningJob, Worker};

use crate::dice::Dice;
use crate::eventually;

/// What failed attempts say.
pub const NO_LUCK: &str = "no luck";

/// What an attempt does, after it has taken its time.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    Plain,
    Output,
    /// Fails now and then.
    Fail,
    Panic,
    /// Snoozes now and then.
    Snooze,
    Cancel,
    Discard,
    /// Writes a row in the transaction that completes it.
    Effect,
    /// Never ends.
    Hang,
    /// Kills its process.
    Abort,
}

#[derive(Clone, Debug, Deserialize, Job, Serialize)]
#[job(kind = "deed")]
pub struct Work {
    pub deed: Deed,
    /// How long it takes, or [`UNTIL_GO`].
    pub millis: u64,
}

/// For [`Work::millis`]: the attempt lasts until the schema has a table `go`, so a test can act while it runs.
pub const UNTIL_GO: u64 = u64::MAX;

/// Does deeds. Its dice are its own: chance decides how often a job fails, never whether it is lost.
pub struct Doer {
    pub dice: Arc<Mutex<Dice>>,
}

impl Doer {
    pub fn new(seed: u64) -> Self {
        Self { dice: Arc::new(Mutex::new(Dice::new(seed, 0))) }
    }

    fn percent(&self, chance: u64) -> bool {
        self.dice.lock().unwrap().percent(chance)
    }
}

impl Worker<Work> for Doer {
    async fn work(&self, job: RunningJob<Work>) -> Result<Outcome, BoxError> {
        match job.args.millis {
            UNTIL_GO => until_go(&job).await?,
            millis => tokio::time::sleep(Duration::from_millis(millis)).await,
        }
        let soon = Duration::from_millis(100);
        match job.args.deed {
            Deed::Plain => Ok(Outcome::complete()),
            Deed::Output => Ok(Outcome::complete_with("x".repeat(2_000))?),
            Deed::Fail if self.percent(40) => Err(NO_LUCK.into()),
            Deed::Panic if self.percent(40) => panic!("{NO_LUCK}"),
            Deed::Snooze if self.percent(40) => Ok(Outcome::snooze(soon)),
            Deed::Fail | Deed::Panic | Deed::Snooze => Ok(Outcome::complete()),
            Deed::Cancel => Ok(Outcome::cancel("not wanted")),
            Deed::Discard => Ok(Outcome::discard("hopeless")),
            Deed::Effect => {
                let schema = job.client().schema();
                let insert = format!("INSERT INTO {}.effect (job, attempt) VALUES ($1, $2)", schema.quoted());
                let mut tx = job.client().pool().begin().await?;
                sqlx::query(AssertSqlSafe(insert))
                    .bind(job.id().as_uuid())
                    .bind(i16::try_from(job.attempt())?)
                    .execute(&mut *tx)
                    .await?;
                job.complete_in(&mut tx).await?;
                tx.commit().await?;
                Ok(Outcome::complete())
            }
            Deed::Hang => std::future::pending().await,
            Deed::Abort => std::process::abort(),
        }
    }
}

async fn until_go(job: &RunningJob<Work>) -> Result<(), BoxError> {
    let go = format!("{}.go", job.client().schema().quoted());
    let exists = || sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL").bind(&go);
    eventually!(exists().fetch_one(job.client().pool()).await?);
    Ok(())
}
