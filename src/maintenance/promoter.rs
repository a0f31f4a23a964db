//! Makes scheduled and retryable jobs available when they are due.
//!
//! Each run returns when the next job is due, and the promoter sleeps until then: at most its interval, since a job that
//! is due sooner may be inserted meanwhile. While a session holds an old snapshot, the index keeps an entry for every job
//! that was promoted since, and a scan from the start reads them all. So where such scans become slow, most runs go on
//! from where the last one ended. A tenth of the time goes to scans from the start: they find jobs that were locked
//! before, or committed late.

use std::time::{Duration, Instant};

use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::batch_size::{BATCH, BatchSize};
use super::lease::Holder;
use super::service::Service;
use super::set_aside::RefusedJobs;
use super::step::{self, Ran, Step};
use crate::error::Result;
use crate::store::{self, Promoted, Statements};

/// The shortest sleep: jobs that are due within it are promoted together.
const SHORTEST_REST: Duration = Duration::from_millis(20);

/// Scans from the start take up one part in this many of the time.
const PART_OF_FULL_SCANS: u32 = 10;

#[derive(Debug)]
pub(crate) struct Promoter {
    interval: Duration,
    /// Where the last scan ended.
    reached: Option<OffsetDateTime>,
    /// When the next scan may begin at the start.
    full_scan_at: Instant,
    batch: BatchSize,
    aside: RefusedJobs,
}

impl Promoter {
    pub(crate) fn new(interval: Duration) -> Self {
        let (batch, aside) = (BatchSize::new(BATCH), RefusedJobs::default());
        Self { interval, reached: None, full_scan_at: Instant::now(), batch, aside }
    }

    async fn promote(&mut self, holder: &Holder) -> Result<Duration> {
        let began = Instant::now();
        let from = if began >= self.full_scan_at { None } else { self.reached };
        let promotion = Promotion { from, limit: self.batch.jobs() };
        let skip = self.aside.ids(began);
        let ran = step::run(holder, &promotion, &skip, self.batch.is_single(), &mut self.aside).await?;
        let Ran { done, found, has_rest, failed } = ran;
        if let Some(error) = failed {
            return Err(error);
        }
        let promoted = done.iter().map(Promotion::count).sum();
        let last = done.last();
        // After a bisection the next scan begins at the same place, for the jobs that are left.
        self.reached = if found.is_some() { from } else { last.map(|last| last.reached) };
        let is_full = self.batch.is_full(found.map_or(promoted, |found| found.len()));
        self.batch.grow_after(promoted, began.elapsed());
        if from.is_none() {
            self.full_scan_at = Instant::now() + began.elapsed() * PART_OF_FULL_SCANS;
        }
        let next_in = last.and_then(|last| last.next_in);
        Ok(step::rest(is_full || has_rest, promoted).unwrap_or_else(|| self.rest(next_in)))
    }

    /// How long to rest until the next job is due: never longer than the interval, however short that is.
    fn rest(&self, next_in: Option<Duration>) -> Duration {
        next_in.unwrap_or(self.interval).max(SHORTEST_REST).min(self.interval)
    }
}

impl Service for Promoter {
    const NAME: &'static str = "promoter";

    fn margin(&self) -> Duration {
        Duration::from_secs(2)
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        match self.promote(holder).await {
            Err(error) if self.batch.shrink_after(&error) => Ok(Duration::ZERO),
            rest => rest,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Promotion {
    from: Option<OffsetDateTime>,
    limit: i64,
}

impl Step for Promotion {
    const VERB: &'static str = "promote";
    type Done = Promoted;

    async fn run(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        only: Option<&[Uuid]>,
    ) -> Result<Promoted> {
        store::promote(connection, statements, self.limit, self.from, only).await
    }

    async fn find(&self, connection: &mut PgConnection, statements: &Statements, skip: &[Uuid]) -> Result<Vec<Uuid>> {
        store::due_jobs(connection, statements, self.limit, self.from, skip).await
    }

    fn count(done: &Promoted) -> usize {
        usize::try_from(done.promoted).unwrap_or_default()
    }
}
