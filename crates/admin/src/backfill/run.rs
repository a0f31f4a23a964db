//! A backfill page by page: each page in batches, and at the end the jobs that other transactions held.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::{Value, json};
use uniqueue::{Client, JobId, Result, publish_cancelled};
use uuid::Uuid;

use super::maker::{Given, Judgement, Maker};
use super::report::{BackfillProgress, BackfillReport, Collision, OnCollision, UnfitJob};
use super::rows::{PageRow, Settled, give_groups, give_keys, holders};
use crate::statement::{OfId, arguments, ask};

/// The most jobs of all kinds that one statement reads.
const PAGE: usize = 2_000;

/// Contested jobs are tried again this often, after longer and longer pauses: 5.5 s in all.
const RETRIES: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

pub(super) type ProgressListener<'a> = Box<dyn FnMut(BackfillProgress) + Send + 'a>;

/// A backfill that runs.
pub(super) struct Run<'a> {
    pub(super) client: &'a Client,
    pub(super) maker: Maker,
    pub(super) overwrites: bool,
    pub(super) on_collision: OnCollision,
    pub(super) batch: usize,
    pub(super) progress: ScanProgress<'a>,
    pub(super) report: BackfillReport,
    /// For a dry run: the job that would claim each key.
    pub(super) met: HashMap<String, JobId>,
    /// Jobs that open transactions held.
    pub(super) contested: Vec<JobId>,
}

/// How far a backfill is.
pub(super) struct ScanProgress<'a> {
    listener: Option<ProgressListener<'a>>,
    /// The last job when the backfill began.
    last: JobId,
    /// Where the first report was.
    first: Option<JobId>,
    scanned: u64,
    /// The part that was reported last.
    part: f64,
}

impl<'a> ScanProgress<'a> {
    pub(super) fn of(listener: Option<ProgressListener<'a>>) -> Self {
        Self { listener, last: JobId::from(Uuid::nil()), first: None, scanned: 0, part: 0.0 }
    }

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
    /// Gives the jobs that exist now their keys or groups.
    pub(super) async fn run(mut self) -> Result<BackfillReport> {
        let last: Vec<OfId> = ask(self.client, LAST, arguments(Value::Null)).await?;
        let Some(OfId { id: last }) = last.into_iter().next() else { return Ok(self.report) };
        self.progress.last = last;
        let mut after = JobId::from(Uuid::nil());
        while let Some(reached) = self.page(after, None).await? {
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
                self.page(JobId::from(Uuid::nil()), Some(ids)).await?;
            }
        }
        self.report.contested = self.contested.len() as u64;
        Ok(self.report)
    }

    /// Gives the jobs of a page what they are to have, or tries some of them again. Returns the id at which the page
    /// ended.
    async fn page(&mut self, after: JobId, ids: Option<&[JobId]>) -> Result<Option<JobId>> {
        let (kind, is_first_time) = (self.report.kind.clone(), ids.is_none());
        let asked = json!({
            "kind": kind, "states": self.maker.final_states(), "ids": ids, "after": after, "last": self.progress.last,
            "limit": PAGE,
        });
        let rows: Vec<PageRow> = ask(self.client, include_str!("../sql/backfill_rows.sql"), arguments(asked)).await?;
        let (scanned, reached) = rows.first().map_or((0, None), |row| (row.scanned, row.reached));
        let mut batch = Vec::new();
        for (job, now) in rows.into_iter().filter_map(|row| Some((row.job?, row.now))) {
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
            self.progress.scanned += scanned;
        }
        if let Some(reached) = reached {
            self.progress.report(reached, self.report.jobs);
        }
        Ok(reached)
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
        let grouped = give_groups(self.client, rows).await?;
        self.report.grouped += grouped.len() as u64;
        self.contested.extend(ids.iter().filter(|id| !grouped.contains(id)));
        Ok(())
    }

    /// Counts what would become of a batch that gets keys.
    async fn predict(&mut self, batch: Vec<Given>) -> Result<()> {
        let holders = holders(self.client, batch.iter().map(|given| given.key.clone()).collect()).await?;
        for Given { id, state, key, would_claim, .. } in batch {
            if !would_claim {
                self.report.unclaimed += 1;
                continue;
            }
            let holder = holders.get(&key).copied().filter(|holder| *holder != id);
            let first = *self.met.entry(key.clone()).or_insert_with(|| holder.unwrap_or(id));
            if first == id {
                self.report.claimed += 1;
            } else {
                let cancelled = self.on_collision.cancels(state);
                self.report.collide(Collision { job: id, state, holder: first, unique_key: key, cancelled });
            }
        }
        Ok(())
    }

    /// Gives a batch its keys.
    async fn claim(&mut self, batch: Vec<Given>) -> Result<()> {
        let (ids, rows): (Vec<_>, Vec<_>) = batch.into_iter().map(|given| (given.id, given.row)).unzip();
        let discards: HashSet<JobId> =
            ids.iter().zip(&rows).filter(|(_, row)| row["discard_on_reentry"] == true).map(|(id, _)| *id).collect();
        let settled = give_keys(self.client, rows, discards, self.on_collision).await?;
        let is_settled: HashMap<JobId, &Settled> = settled.iter().map(|job| (job.id, job)).collect();
        let is_contested = |id: &&JobId| match is_settled.get(*id) {
            None => true,
            // An open transaction has the key.
            Some(settled) => settled.unique_yielded && !settled.claims && settled.holder.is_none(),
        };
        self.contested.extend(ids.iter().filter(is_contested));
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
                    publish_cancelled(self.client, id, kind, queue, attempt);
                }
            }
        }
    }
}

/// The last job there is.
const LAST: &str = "SELECT j.id FROM /* schema */job AS j ORDER BY j.id DESC LIMIT 1";
