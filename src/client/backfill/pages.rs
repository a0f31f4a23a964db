//! A backfill page by page: each page in batches, and at the end the jobs that other transactions held.

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

/// The most jobs of all kinds that one statement reads.
const PAGE: usize = 2_000;

/// Contested jobs are tried again this often, after longer and longer pauses: 5.5 s in all.
const RETRIES: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The options of a backfill.
pub(super) struct Options {
    pub(super) maker: Maker,
    pub(super) is_dry: bool,
    pub(super) rekeys: bool,
    pub(super) on_collision: OnCollision,
    pub(super) batch: usize,
}

type Listener<'a> = Box<dyn FnMut(BackfillProgress) + Send + 'a>;

/// Gives the jobs of a kind that exist now their keys.
pub(super) async fn run(
    client: &Client,
    kind: Kind,
    options: Options,
    listener: Option<Listener<'_>>,
) -> Result<BackfillReport> {
    let mut connection = client.connection().await?;
    let report = BackfillReport::new(kind.clone(), options.is_dry);
    let Some(last) = store::last_id(&mut connection, client.statements()).await? else {
        return Ok(report);
    };
    let progress = Progress { listener, last, first: None, scanned: 0, part: 0.0 };
    let connection = &mut *connection;
    let (contested, met) = (Vec::new(), HashMap::new());
    let mut pages = Pages { client, connection, kind, options, report, progress, contested, met };
    pages.run(last).await?;
    Ok(pages.report)
}

struct Pages<'a> {
    client: &'a Client,
    connection: &'a mut PgConnection,
    kind: Kind,
    options: Options,
    report: BackfillReport,
    progress: Progress<'a>,
    /// Jobs that open transactions held.
    contested: Vec<Uuid>,
    /// For a dry run: the job that would claim each key. A key stands here by half of its SHA-256.
    met: HashMap<u128, JobId>,
}

/// How far a backfill is.
struct Progress<'a> {
    listener: Option<Listener<'a>>,
    /// The last job when the backfill began.
    last: JobId,
    /// Where the first report was.
    first: Option<JobId>,
    scanned: u64,
    /// The part that was reported last.
    part: f64,
}

impl Progress<'_> {
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

impl Pages<'_> {
    async fn run(&mut self, last: JobId) -> Result<()> {
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
            for ids in contested.chunks(self.options.batch.min(PAGE)) {
                self.page(JobId::from(Uuid::nil()), last, Some(ids)).await?;
            }
        }
        self.report.contested = self.contested.len() as u64;
        Ok(())
    }

    /// Gives the jobs of a page their keys, or tries some of them again. Returns the id at which the page ended.
    async fn page(&mut self, after: JobId, last: JobId, ids: Option<&[Uuid]>) -> Result<Option<JobId>> {
        let statements = self.client.statements();
        let wanted = Wanted { kind: &self.kind, final_states: self.options.maker.final_states(), ids };
        let page = store::backfill_rows(self.connection, statements, wanted, after, last, PAGE as i64).await?;
        let now = store::database_time(self.connection, statements).await?;
        let is_first_time = ids.is_none();
        let mut batch: Vec<(Keyed, Seen, bool)> = Vec::new();
        for job in page.jobs {
            let id = job.id;
            let judgement = self.options.maker.judge(self.kind.as_str(), &job, self.options.rekeys, now);
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
            if batch.len() == self.options.batch {
                self.give(std::mem::take(&mut batch)).await?;
                self.progress.report(id, self.report.jobs);
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

    async fn give(&mut self, batch: Vec<(Keyed, Seen, bool)>) -> Result<()> {
        if self.options.is_dry { self.predict(batch).await } else { self.write(batch).await }
    }

    /// Counts what would become of a batch.
    async fn predict(&mut self, batch: Vec<(Keyed, Seen, bool)>) -> Result<()> {
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
            .filter(|job| cancels(self.options.on_collision, job.state))
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
                None => self.contested.push(job.id.as_uuid()),
                Some(settled) => self.count(settled),
            }
        }
        Ok(())
    }

    /// Counts what became of a job.
    fn count(&mut self, job: &Settled) {
        match job.holder {
            _ if job.claims => self.report.claimed += 1,
            _ if !job.has_yielded => self.report.unclaimed += 1,
            None => self.contested.push(job.id.as_uuid()),
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

    fn cancels(&self, state: JobState) -> bool {
        cancels(self.options.on_collision, state)
    }
}

/// Whether a job in this state is cancelled after a collision.
fn cancels(on_collision: OnCollision, state: JobState) -> bool {
    on_collision == OnCollision::Cancel && state != JobState::Running && !state.is_final()
}

/// Enough of a key's hash to tell it from all others of a table.
fn digest(key: &str) -> u128 {
    use sha2::{Digest, Sha256};

    let hash = Sha256::digest(key.as_bytes());
    u128::from_be_bytes(std::array::from_fn(|at| hash[at]))
}
