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

use super::batches::{Batch, Batches};
use super::lease::Holder;
use super::service::Service;
use super::step::Step;
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
    batches: Batches,
}

impl Promoter {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, reached: None, full_scan_at: Instant::now(), batches: Batches::default() }
    }
}

impl Service for Promoter {
    const NAME: &'static str = "promoter";

    fn margin(&self) -> Duration {
        Duration::from_secs(2)
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        let began = Instant::now();
        let from = if began >= self.full_scan_at { None } else { self.reached };
        let step = Promotion { from, limit: self.batches.limit() };
        let Batch { done, is_partial, rest } = self.batches.run(holder, &step).await;
        let rest = rest?;
        let last = done.last();
        // For the jobs that are left, the next scan begins at the same place.
        self.reached = if is_partial { from } else { last.map(|last| last.reached) };
        if from.is_none() {
            self.full_scan_at = Instant::now() + began.elapsed() * PART_OF_FULL_SCANS;
        }
        let next_in = last.and_then(|last| last.next_in).unwrap_or(self.interval);
        // Never longer than the interval, however short that is.
        Ok(rest.unwrap_or(next_in.max(SHORTEST_REST).min(self.interval)))
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
