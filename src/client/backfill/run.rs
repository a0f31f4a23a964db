//! A backfill page by page: each page in batches, and at the end the jobs that other transactions held.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::json;
use sha2::{Digest, Sha256};
use sqlx::PgConnection;
use uuid::Uuid;

use super::judgement::{Given, Judgement};
use super::maker::Maker;
use crate::client::Client;
use crate::error::Result;
use crate::store::{self, Settled};
use crate::words::backfill::{BackfillProgress, BackfillReport, Collision, OnCollision, UnfitJob};
use crate::words::event::{Event, Happened};
use crate::words::ident::{JobId, Kind, QueueName};

/// The most jobs of all kinds that one statement reads.
const PAGE: usize = 2_000;

/// Contested jobs are tried again this often, after longer and longer pauses: 5.5 s in all.
const RETRIES: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

pub(super) type ProgressListener<'a> = Box<dyn FnMut(BackfillProgress) + Send + 'a>;

/// A backfill that runs.
pub(super) struct Run<'a> {
    client: &'a Client,
    connection: &'a mut PgConnection,
    maker: Maker,
    overwrites: bool,
    on_collision: OnCollision,
    batch: usize,
    progress: ScanProgress<'a>,
    report: BackfillReport,
    /// For a dry run: the job that would claim each key. A key stands here by half of its SHA-256.
    met: HashMap<u128, JobId>,
    /// Jobs that open transactions held.
    contested: Vec<Uuid>,
}

/// How far a backfill is.
struct ScanProgress<'a> {
    listener: Option<ProgressListener<'a>>,
    /// The last job when the backfill began.
    last: JobId,
    /// Where the first report was.
    first: Option<JobId>,
    scanned: u64,
    /// The part that was reported last.
    part: f64,
}

impl ScanProgress<'_> {
    fn report(&mut self, reached: JobId, jobs: u64) {
        let Some(listener) = &mut self.listener else { return };
        let first = *self.first.get_or_insert(reached);
        let millis = |id: JobId| (id.as_uuid().as_u128() >> 80) as f64;
        let span = millis(self.last) - millis(first);
        let part = if span > 0.0 { ((millis(reached) - millis(first)) / span).clamp(0.0, 1.0) } else { 1.0 };
        // Contested jobs that are tried again have smaller ids.
        self.part = self.part.max(part);
        listener(BackfillProgress { scanned: self.scanned, jobs, part: self.part });
    }
}

impl Run<'_> {
    /// Gives the jobs of a kind that exist now what they are to have, each at most `batch` at a time.
    #[expect(clippy::too_many_arguments, reason = "each is one option of the backfill")]
    pub(super) async fn of_all(
        client: &Client,
        kind: Kind,
        maker: Maker,
        overwrites: bool,
        on_collision: OnCollision,
        batch: usize,
        listener: Option<ProgressListener<'_>>,
        dry_run: bool,
    ) -> Result<BackfillReport> {
        let report = BackfillReport { kind: kind.to_string(), dry_run, ..BackfillReport::default() };
        let connection = &mut *client.connection().await?;
        let Some(last) = store::last_id(connection, client.statements()).await? else { return Ok(report) };
        let progress = ScanProgress { listener, last, first: None, scanned: 0, part: 0.0 };
        let (met, contested) = (HashMap::new(), Vec::new());
        Run { client, connection, maker, overwrites, on_collision, batch, progress, report, met, contested }
            .run(last)
            .await
    }

    async fn run(mut self, last: JobId) -> Result<BackfillReport> {
        let mut after = JobId::from(Uuid::nil());
        while let Some(reached) = self.page(after, last, None).await? {
            after = reached;
        }
        for round in 1..=RETRIES {
            let contested = std::mem::take(&mut self.contested);
            if contested.is_empty() {
                break;
            }
            tokio::time::sleep(FIRST_PAUSE * round).await;
            // No more than one statement reads: the others would be forgotten.
            for ids in contested.chunks(self.batch.min(PAGE)) {
                self.page(JobId::from(Uuid::nil()), last, Some(ids)).await?;
            }
        }
        self.report.contested = self.contested.len() as u64;
        Ok(self.report)
    }

    /// Gives the jobs of a page what they are to have, or tries some of them again. Returns the id at which the page
    /// ended.
    async fn page(&mut self, after: JobId, last: JobId, ids: Option<&[Uuid]>) -> Result<Option<JobId>> {
        let (statements, states) = (self.client.statements(), self.maker.final_states());
        let (kind, is_first_time) = (self.report.kind.clone(), ids.is_none());
        let page =
            store::backfill_rows(self.connection, statements, &kind, states, ids, after, last, PAGE as i64).await?;
        let now = store::database_time(self.connection, statements).await?;
        let mut batch = Vec::new();
        for job in page.jobs {
            let judgement = self.maker.judge(&kind, &job, self.overwrites, now);
            self.report.jobs += u64::from(is_first_time && !matches!(judgement, Judgement::Passed));
            let report = &mut self.report;
            match (judgement, &self.maker) {
                (Judgement::Passed | Judgement::Left, _) => {}
                (Judgement::Unchanged, _) => report.unchanged += 1,
                (Judgement::Other, Maker::Keys(_)) => report.other_key += 1,
                (Judgement::Other, Maker::Groups(_)) => report.other_group += 1,
                (Judgement::Running, _) => report.running += 1,
                (Judgement::Unfit(problem), _) => report.leave_unfit(UnfitJob { job: job.id, problem }),
                (Judgement::Given(given), _) => batch.push(given),
            }
            if batch.len() == self.batch {
                self.give(std::mem::take(&mut batch)).await?;
                self.progress.report(job.id, self.report.jobs);
            }
        }
        if !batch.is_empty() {
            self.give(batch).await?;
        }
        if is_first_time {
            self.progress.scanned += page.scanned;
        }
        if let Some(reached) = page.reached {
            self.progress.report(reached, self.report.jobs);
        }
        Ok(page.reached)
    }

    /// Gives a batch what it is to have, or counts what would become of it.
    async fn give(&mut self, batch: Vec<Given>) -> Result<()> {
        match (&self.maker, self.report.dry_run) {
            (Maker::Groups(_), true) => self.report.grouped += batch.len() as u64,
            (Maker::Groups(_), false) => self.group(batch).await?,
            (Maker::Keys(_), true) => self.predict(batch).await?,
            (Maker::Keys(_), false) => self.claim(batch).await?,
        }
        Ok(())
    }

    /// Puts a batch in its groups.
    async fn group(&mut self, batch: Vec<Given>) -> Result<()> {
        let (ids, rows): (Vec<_>, Vec<_>) = batch.into_iter().map(|given| (given.id, given.row)).unzip();
        let mut transaction = store::begin_batch(self.connection).await?;
        let grouped = store::backfill_groups(&mut transaction, self.client.statements(), rows).await?;
        store::commit(transaction).await?;
        self.report.grouped += grouped.len() as u64;
        self.contested.extend(ids.iter().filter(|id| !grouped.contains(id)).map(|id| id.as_uuid()));
        Ok(())
    }

    /// Counts what would become of a batch that gets keys.
    async fn predict(&mut self, batch: Vec<Given>) -> Result<()> {
        let keys: Vec<_> = batch.iter().map(|given| given.key.as_str()).collect();
        let holders = store::holders(self.connection, self.client.statements(), &keys).await?;
        for Given { id, state, key, would_claim, .. } in batch {
            if !would_claim {
                self.report.unclaimed += 1;
                continue;
            }
            let holder = holders.get(&key).copied().filter(|holder| *holder != id);
            let first = *self.met.entry(digest(&key)).or_insert_with(|| holder.unwrap_or(id));
            if first == id {
                self.report.claimed += 1;
            } else {
                let cancelled = self.on_collision.cancels(state);
                self.report.collide(Collision { job: id, state, holder: first, unique_key: key, cancelled });
            }
        }
        Ok(())
    }

    /// Gives a batch its keys, in a transaction of its own.
    async fn claim(&mut self, batch: Vec<Given>) -> Result<()> {
        let (statements, on_collision) = (self.client.statements(), self.on_collision);
        let (ids, rows): (Vec<_>, Vec<_>) = batch.into_iter().map(|given| (given.id, given.row)).unzip();
        let discards: HashSet<JobId> =
            ids.iter().zip(&rows).filter(|(_, row)| row["discard_on_reentry"] == true).map(|(id, _)| *id).collect();
        let mut transaction = store::begin_batch(self.connection).await?;
        let settled = store::backfill_keys(&mut transaction, statements, rows).await?;
        let ends: Vec<_> = (settled.iter())
            .map(|job| (job, discards.contains(&job.id), job.holder.filter(|_| on_collision.cancels(job.state))))
            .filter(|(_, discards, holder)| *discards || holder.is_some())
            .map(|(job, discards, holder)| json!({ "id": job.id, "discard_on_reentry": discards, "holder": holder }))
            .collect();
        if !ends.is_empty() {
            store::backfill_settle(&mut transaction, statements, ends).await?;
        }
        store::commit(transaction).await?;
        let is_settled: HashMap<JobId, &Settled> = settled.iter().map(|job| (job.id, job)).collect();
        let is_contested = |id: &JobId| match is_settled.get(id) {
            None => true,
            // An open transaction has the key.
            Some(settled) => settled.unique_yielded && !settled.claims && settled.holder.is_none(),
        };
        self.contested.extend(ids.iter().filter(|id| is_contested(id)).map(|id| id.as_uuid()));
        for job in settled {
            self.count(job);
        }
        Ok(())
    }

    /// Counts what became of a job.
    fn count(&mut self, job: Settled) {
        let Settled { id, kind, queue, attempt, state, unique_key, claims, unique_yielded, holder } = job;
        match holder {
            _ if claims => self.report.claimed += 1,
            _ if !unique_yielded => self.report.unclaimed += 1,
            None => {}
            Some(holder) => {
                let cancelled = self.on_collision.cancels(state);
                self.report.collide(Collision { job: id, state, holder, unique_key, cancelled });
                if cancelled {
                    let happened = Happened::Cancelled { reason: None };
                    let (kind, queue) = (Kind::from_stored(&kind), QueueName::from_stored(&queue));
                    self.client.publish(Event { id, kind, queue, attempt, happened });
                }
            }
        }
    }
}

/// Enough of a key's hash to tell it from all others of a table.
fn digest(key: &str) -> u128 {
    let hash = Sha256::digest(key.as_bytes());
    u128::from_be_bytes(std::array::from_fn(|at| hash[at]))
}
