//! A backfill page by page: each page in batches, and at the end the jobs that other transactions held.

use std::future::Future;
use std::time::Duration;

use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::backfill::BackfillProgress;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::ident::{JobId, Kind};
use crate::store::{self, SeenRow, WantedRow};
use crate::unique::StateSet;

/// The most jobs of all kinds that one statement reads.
const PAGE: usize = 2_000;

/// Contested jobs are tried again this often, after longer and longer pauses: 5.5 s in all.
const RETRIES: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The default number of jobs that are changed in one transaction.
pub(super) const BATCH: u32 = 200;

/// The rule by which a backfill gives jobs a key or a group.
pub(super) trait Rule: Send {
    /// The key or the group of a job.
    type Given: Send;

    /// The final states of jobs that are judged as well.
    fn final_states(&self) -> StateSet;

    /// Decides what to do with a job, by the database's time, and counts what is left as it is.
    fn judge(&mut self, job: SeenRow, now: OffsetDateTime) -> Judged<Self::Given>;

    /// Gives a batch what it is to have, or counts what would become of it. Returns the jobs to try again.
    fn give(
        &mut self,
        connection: &mut PgConnection,
        batch: Vec<Self::Given>,
    ) -> impl Future<Output = Result<Vec<JobId>>> + Send;
}

/// The decision of a backfill about a job.
pub(super) enum Judged<G> {
    /// It is no concern of the backfill, and is not counted.
    Passed,
    /// It is left as it is.
    Left,
    Given(G),
}

pub(super) type ProgressListener<'a> = Box<dyn FnMut(BackfillProgress) + Send + 'a>;

/// How many jobs a backfill has checked, and how many were contested to the end.
pub(super) struct Checked {
    pub(super) jobs: u64,
    pub(super) contested: u64,
}

/// Applies a rule to the jobs of a kind that exist now, each at most `batch` at a time.
pub(super) async fn run<R: Rule>(
    client: &Client,
    kind: &Kind,
    rule: &mut R,
    batch: u32,
    listener: Option<ProgressListener<'_>>,
) -> Result<Checked> {
    if batch == 0 {
        return Err(Error::InvalidOption { option: "batch", problem: "must be at least 1", given: batch.to_string() });
    }
    let mut connection = client.connection().await?;
    let Some(last) = store::last_id(&mut connection, client.statements()).await? else {
        return Ok(Checked { jobs: 0, contested: 0 });
    };
    let progress = ScanProgress { listener, last, first: None, scanned: 0, part: 0.0 };
    let (connection, batch) = (&mut *connection, batch as usize);
    let mut pages = KindPages { client, connection, kind, rule, batch, progress, jobs: 0, contested: Vec::new() };
    pages.run(last).await?;
    Ok(Checked { jobs: pages.jobs, contested: pages.contested.len() as u64 })
}

struct KindPages<'a, R> {
    client: &'a Client,
    connection: &'a mut PgConnection,
    kind: &'a Kind,
    rule: &'a mut R,
    batch: usize,
    progress: ScanProgress<'a>,
    jobs: u64,
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

impl<R: Rule> KindPages<'_, R> {
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
            for ids in contested.chunks(self.batch.min(PAGE)) {
                self.page(JobId::from(Uuid::nil()), last, Some(ids)).await?;
            }
        }
        Ok(())
    }

    /// Gives the jobs of a page what they are to have, or tries some of them again. Returns the id at which the page
    /// ended.
    async fn page(&mut self, after: JobId, last: JobId, ids: Option<&[Uuid]>) -> Result<Option<JobId>> {
        let statements = self.client.statements();
        let wanted = WantedRow { kind: self.kind, final_states: self.rule.final_states(), ids };
        let page = store::backfill_rows(self.connection, statements, wanted, after, last, PAGE as i64).await?;
        let now = store::database_time(self.connection, statements).await?;
        let is_first_time = ids.is_none();
        let mut batch = Vec::new();
        for job in page.jobs {
            let id = job.id;
            let judged = self.rule.judge(job, now);
            if is_first_time && !matches!(judged, Judged::Passed) {
                self.jobs += 1;
            }
            if let Judged::Given(given) = judged {
                batch.push(given);
            }
            if batch.len() == self.batch {
                self.give(std::mem::take(&mut batch)).await?;
                self.progress.report(id, self.jobs);
            }
        }
        if !batch.is_empty() {
            self.give(batch).await?;
        }
        if is_first_time {
            self.progress.scanned += page.scanned;
        }
        if let Some(reached) = page.reached {
            self.progress.report(reached, self.jobs);
        }
        Ok(page.reached)
    }

    async fn give(&mut self, batch: Vec<R::Given>) -> Result<()> {
        let contested = self.rule.give(self.connection, batch).await?;
        self.contested.extend(contested.into_iter().map(JobId::as_uuid));
        Ok(())
    }
}
