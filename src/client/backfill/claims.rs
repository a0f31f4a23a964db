//! A backfill of unique keys: its treatment of a batch.

use std::collections::HashMap;

use sqlx::PgConnection;
use time::OffsetDateTime;

use super::keys::{Judgement, KeyMaker};
use super::pages::{Judged, Rule};
use crate::backfill::{BackfillReport, Collision, OnCollision, UnfitJob};
use crate::client::Client;
use crate::error::Result;
use crate::event::{Event, Happened};
use crate::ident::JobId;
use crate::state::JobState;
use crate::store::{self, Keyed, SeenRow, Settled};
use crate::unique::StateSet;

/// Gives jobs their keys, and their claims where the keys are free.
pub(super) struct Claiming<'a> {
    pub(super) client: &'a Client,
    pub(super) maker: KeyMaker,
    pub(super) rekeys: bool,
    pub(super) on_collision: OnCollision,
    pub(super) report: BackfillReport,
    /// For a dry run: the job that would claim each key. A key stands here by half of its SHA-256.
    pub(super) met: HashMap<u128, JobId>,
}

/// The key of a job, the job's state, and whether it would claim the key.
type Given = (Keyed, JobState, bool);

impl Rule for Claiming<'_> {
    type Given = Given;

    fn final_states(&self) -> StateSet {
        self.maker.final_states()
    }

    fn judge(&mut self, job: SeenRow, now: OffsetDateTime) -> Judged<Given> {
        match self.maker.judge(self.report.kind.as_str(), &job, self.rekeys, now) {
            Judgement::Passed => return Judged::Passed,
            Judgement::Key(keyed, would_claim) => return Judged::Given((keyed, job.state, would_claim)),
            Judgement::Unchanged => self.report.unchanged += 1,
            Judgement::OtherKey => self.report.other_key += 1,
            Judgement::Unfit(problem) => self.report.leave_unfit(UnfitJob { job: job.id, problem }),
        }
        Judged::Left
    }

    async fn give(&mut self, connection: &mut PgConnection, batch: Vec<Given>) -> Result<Vec<JobId>> {
        if self.report.dry_run {
            self.predict(connection, batch).await?;
            return Ok(Vec::new());
        }
        self.write(connection, batch).await
    }
}

impl Claiming<'_> {
    /// Counts what would become of a batch.
    async fn predict(&mut self, connection: &mut PgConnection, batch: Vec<Given>) -> Result<()> {
        let keys: Vec<_> = batch.iter().map(|(keyed, ..)| keyed.unique_key.as_str()).collect();
        let holders = store::holders(connection, self.client.statements(), &keys).await?;
        for (keyed, state, would_claim) in batch {
            if !would_claim {
                self.report.unclaimed += 1;
                continue;
            }
            let holder = holders.get(&keyed.unique_key).copied().filter(|holder| *holder != keyed.id);
            let first = *self.met.entry(digest(&keyed.unique_key)).or_insert_with(|| holder.unwrap_or(keyed.id));
            if first == keyed.id {
                self.report.claimed += 1;
            } else {
                let cancelled = self.cancels(state);
                let Keyed { id: job, unique_key, .. } = keyed;
                self.report.collide(Collision { job, state, holder: first, unique_key, cancelled });
            }
        }
        Ok(())
    }

    /// Gives a batch its keys, in a transaction of its own. Returns the jobs that were held.
    async fn write(&mut self, connection: &mut PgConnection, batch: Vec<Given>) -> Result<Vec<JobId>> {
        let statements = self.client.statements();
        let keyed: Vec<Keyed> = batch.into_iter().map(|(keyed, ..)| keyed).collect();
        let mut transaction = store::begin_batch(connection).await?;
        let settled = store::backfill_keys(&mut transaction, statements, &keyed).await?;
        let cancelled: Vec<_> = (settled.iter())
            .filter(|job| self.cancels(job.state))
            .filter_map(|job| Some((job.id, job.holder?)))
            .collect();
        let is_settled: HashMap<JobId, &Settled> = settled.iter().map(|job| (job.id, job)).collect();
        let discards: Vec<_> = (keyed.iter())
            .filter(|job| is_settled.contains_key(&job.id))
            .map(|job| (job.id, job.discard_on_reentry))
            .collect();
        if !cancelled.is_empty() || discards.iter().any(|(_, discards)| *discards) {
            store::backfill_settle(&mut transaction, statements, &discards, &cancelled).await?;
        }
        store::commit(transaction).await?;
        let is_contested = |job: &Keyed| match is_settled.get(&job.id) {
            None => true,
            // An open transaction has the key.
            Some(settled) => settled.has_yielded && !settled.claims && settled.holder.is_none(),
        };
        let contested = keyed.iter().filter(|job| is_contested(job)).map(|job| job.id).collect();
        for job in &settled {
            self.count(job);
        }
        Ok(contested)
    }

    /// Counts what became of a job.
    fn count(&mut self, job: &Settled) {
        match job.holder {
            _ if job.claims => self.report.claimed += 1,
            _ if !job.has_yielded => self.report.unclaimed += 1,
            None => {}
            Some(holder) => {
                let cancelled = self.cancels(job.state);
                let unique_key = job.unique_key.clone();
                self.report.collide(Collision { job: job.id, state: job.state, holder, unique_key, cancelled });
                if cancelled {
                    self.client.publish(Event {
                        id: job.id,
                        kind: job.kind.clone(),
                        queue: job.queue.clone(),
                        attempt: job.attempt,
                        happened: Happened::Cancelled { reason: None },
                    });
                }
            }
        }
    }

    /// Whether a job in this state is cancelled after a collision.
    fn cancels(&self, state: JobState) -> bool {
        self.on_collision == OnCollision::Cancel && state != JobState::Running && !state.is_final()
    }
}

/// Enough of a key's hash to tell it from all others of a table.
fn digest(key: &str) -> u128 {
    use sha2::{Digest, Sha256};

    let hash = Sha256::digest(key.as_bytes());
    u128::from_be_bytes(std::array::from_fn(|at| hash[at]))
}
