//! The walk of a backfill: stretch by stretch, batch by batch, and then what was contested.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::keys::{Judgement, Maker};
use crate::backfill::{BackfillProgress, BackfillReport, Collision, OnCollision, UnfitJob};
use crate::client::Client;
use crate::error::Result;
use crate::event::{Event, Happened};
use crate::ident::{JobId, Kind};
use crate::state::JobState;
use crate::store::{self, Keyed, Seen, Settled, Wanted};

/// So many jobs of all kinds are gone past by one statement.
const STRETCH: usize = 2_000;

/// What was contested is tried again so often, after longer and longer pauses: 5.5 s in all.
const AGAIN: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// What a backfill is to do.
pub(super) struct Rules {
    pub(super) maker: Maker,
    pub(super) is_dry: bool,
    pub(super) rekeys: bool,
    pub(super) on_collision: OnCollision,
    pub(super) batch: usize,
}

type Told<'a> = Option<Box<dyn FnMut(BackfillProgress) + Send + 'a>>;

/// Gives the jobs of a kind that are there now their keys.
pub(super) async fn run(client: &Client, kind: Kind, rules: Rules, told: Told<'_>) -> Result<BackfillReport> {
    let mut connection = client.connection().await?;
    let report = BackfillReport::new(kind.clone(), rules.is_dry);
    let Some(last) = store::last_id(&mut connection, client.statements()).await? else {
        return Ok(report);
    };
    let mut walk = Walk {
        client,
        connection: &mut connection,
        kind,
        rules,
        told,
        report,
        last,
        first: None,
        walked: 0,
        part: 0.0,
        again: Vec::new(),
        met: HashMap::new(),
    };
    walk.go().await?;
    Ok(walk.report)
}

struct Walk<'a> {
    client: &'a Client,
    connection: &'a mut PgConnection,
    kind: Kind,
    rules: Rules,
    told: Told<'a>,
    report: BackfillReport,
    last: JobId,
    /// Where it first told something.
    first: Option<JobId>,
    walked: u64,
    /// How far it has told that it is.
    part: f64,
    /// Jobs that somebody held fast.
    again: Vec<Uuid>,
    /// Of a dry run: which job would claim which key, by the half of its SHA-256.
    met: HashMap<u128, JobId>,
}

impl Walk<'_> {
    async fn go(&mut self) -> Result<()> {
        let mut after = JobId::from(Uuid::nil());
        while let Some(reached) = self.stretch(after, None).await? {
            after = reached;
        }
        for round in 1..=AGAIN {
            let again = std::mem::take(&mut self.again);
            if again.is_empty() {
                break;
            }
            tokio::time::sleep(PAUSE * round).await;
            // As many as one statement reads: what it does not read would be forgotten.
            for ids in again.chunks(self.rules.batch.min(STRETCH)) {
                self.stretch(JobId::from(Uuid::nil()), Some(ids)).await?;
            }
        }
        self.report.contested = self.again.len() as u64;
        Ok(())
    }

    /// Goes past a stretch of jobs, or to these of them once more. Answers with where it ended.
    async fn stretch(&mut self, after: JobId, ids: Option<&[Uuid]>) -> Result<Option<JobId>> {
        let statements = self.client.statements();
        let wanted = Wanted { kind: &self.kind, final_states: self.rules.maker.final_states(), ids };
        let stretch =
            store::backfill_rows(self.connection, statements, wanted, after, self.last, STRETCH as i64).await?;
        let now = store::database_time(self.connection, statements).await?;
        let is_first_time = ids.is_none();
        let mut batch: Vec<(Keyed, Seen, bool)> = Vec::new();
        for job in stretch.jobs {
            let id = job.id;
            let judgement = self.rules.maker.judge(self.kind.as_str(), &job, self.rules.rekeys, now);
            if is_first_time && !matches!(judgement, Judgement::Passed) {
                self.report.jobs += 1;
            }
            match judgement {
                Judgement::Passed => {}
                Judgement::Unchanged => self.report.unchanged += 1,
                Judgement::OtherKey => self.report.other_key += 1,
                Judgement::Unfit(problem) => self.report.leave_unfit(UnfitJob { job: job.id, problem }),
                Judgement::Key(keyed, would_claim) => batch.push((keyed, job, would_claim)),
            }
            if batch.len() == self.rules.batch {
                self.give(std::mem::take(&mut batch)).await?;
                self.tell(id);
            }
        }
        if !batch.is_empty() {
            self.give(batch).await?;
        }
        if is_first_time {
            self.walked += stretch.walked;
        }
        if let Some(reached) = stretch.reached {
            self.tell(reached);
        }
        Ok(stretch.reached)
    }

    async fn give(&mut self, batch: Vec<(Keyed, Seen, bool)>) -> Result<()> {
        if self.rules.is_dry { self.weigh(batch).await } else { self.write(batch).await }
    }

    /// What would become of a batch.
    async fn weigh(&mut self, batch: Vec<(Keyed, Seen, bool)>) -> Result<()> {
        let keys: Vec<_> = batch.iter().map(|(keyed, ..)| keyed.unique_key.as_str()).collect();
        let holders = store::holders(self.connection, self.client.statements(), &keys).await?;
        for (keyed, job, would_claim) in batch {
            if !would_claim {
                self.report.unclaimed += 1;
                continue;
            }
            let holder = holders.get(&keyed.unique_key).copied().filter(|holder| *holder != job.id);
            let first = *self.met.entry(digest(&keyed.unique_key)).or_insert_with(|| holder.unwrap_or(job.id));
            if first == job.id {
                self.report.claimed += 1;
            } else {
                let cancelled = self.cancels(job.state);
                let unique_key = keyed.unique_key;
                self.report.collide(Collision { job: job.id, state: job.state, holder: first, unique_key, cancelled });
            }
        }
        Ok(())
    }

    /// Gives a batch its keys, in a transaction of its own.
    async fn write(&mut self, batch: Vec<(Keyed, Seen, bool)>) -> Result<()> {
        let statements = self.client.statements();
        let keyed: Vec<Keyed> = batch.into_iter().map(|(keyed, ..)| keyed).collect();
        let mut transaction = store::begin_batch(self.connection).await?;
        let settled = store::backfill_keys(&mut transaction, statements, &keyed).await?;
        let cancelled: Vec<_> = (settled.iter())
            .filter(|job| cancels(self.rules.on_collision, job.state))
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
        transaction.commit().await?;
        for job in &keyed {
            match is_settled.get(&job.id) {
                None => self.again.push(job.id.as_uuid()),
                Some(settled) => self.note(settled),
            }
        }
        Ok(())
    }

    /// Counts what became of a job.
    fn note(&mut self, job: &Settled) {
        match job.holder {
            _ if job.claims => self.report.claimed += 1,
            _ if !job.has_yielded => self.report.unclaimed += 1,
            None => self.again.push(job.id.as_uuid()),
            Some(holder) => {
                let cancelled = self.cancels(job.state);
                let unique_key = job.unique_key.clone();
                self.report.collide(Collision { job: job.id, state: job.state, holder, unique_key, cancelled });
                if cancelled {
                    self.client.tell(Event {
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

    fn cancels(&self, state: JobState) -> bool {
        cancels(self.rules.on_collision, state)
    }

    /// Tells how far it is.
    fn tell(&mut self, reached: JobId) {
        let Some(told) = &mut self.told else { return };
        let first = *self.first.get_or_insert(reached);
        let millis = |id: JobId| (id.as_uuid().as_u128() >> 80) as f64;
        let span = millis(self.last) - millis(first);
        let part = if span > 0.0 { ((millis(reached) - millis(first)) / span).clamp(0.0, 1.0) } else { 1.0 };
        // What is tried again lies behind.
        self.part = self.part.max(part);
        told(BackfillProgress { walked: self.walked, jobs: self.report.jobs, part: self.part });
    }
}

/// Whether a job in this state is cancelled over a collision.
fn cancels(on_collision: OnCollision, state: JobState) -> bool {
    on_collision == OnCollision::Cancel && state != JobState::Running && !state.is_final()
}

/// Enough of a key to tell it from all others of a table.
fn digest(key: &str) -> u128 {
    use sha2::{Digest, Sha256};

    let hash = Sha256::digest(key.as_bytes());
    u128::from_be_bytes(std::array::from_fn(|at| hash[at]))
}
