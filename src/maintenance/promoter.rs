//! Makes scheduled and retryable jobs available when they are due.
//!
//! Each look tells when the next job is due, and the promoter sleeps until then: at most its
//! interval, since a job with a shorter wait may come meanwhile. While somebody holds an old
//! snapshot, the index keeps an entry for every job that was promoted since, and a look from the
//! start passes them all. So when such looks become dear, most go on from where the last one ended,
//! and one in about ten of their costs looks from the start: for what was locked when its turn came,
//! or was committed late.

use std::time::{Duration, Instant};

use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::portion::Portion;
use super::sifting::{Aside, Sifted, Step, rest, run_whole, sift};
use super::{BATCH, Holder, Service};
use crate::error::Result;
use crate::store::{self, Promoted, Statements};

/// The shortest sleep: jobs that are due within it are promoted together.
const SHORTEST_REST: Duration = Duration::from_millis(20);

/// Looks from the start may take up this part of the time.
const SHARE_OF_FULL_LOOKS: u32 = 10;

#[derive(Debug)]
pub(crate) struct Promoter {
    interval: Duration,
    /// Where the last look ended.
    reached: Option<OffsetDateTime>,
    /// When the next look may start from the start.
    full_look_from: Instant,
    portion: Portion,
    aside: Aside,
}

impl Promoter {
    pub(crate) fn new(interval: Duration) -> Self {
        let (portion, aside) = (Portion::new(BATCH), Aside::default());
        Self { interval, reached: None, full_look_from: Instant::now(), portion, aside }
    }

    /// How long to rest until the next job is due: never longer than the interval, however short that is.
    fn rest(&self, next_in: Option<Duration>) -> Duration {
        next_in.unwrap_or(self.interval).max(SHORTEST_REST).min(self.interval)
    }

    /// A look of which the database refuses some jobs, or of one that may take too long. Leaves out what is aside.
    async fn sift(&mut self, holder: &Holder, look: Look, aside: &[Uuid]) -> Result<Duration> {
        let began = Instant::now();
        let mut session = holder.connection.session().await?;
        let (ids, reached) =
            store::due_jobs(session.connection(), &holder.statements, look.limit, look.from, aside).await?;
        session.end().await?;
        let is_full = self.portion.is_full(ids.len());
        let Sifted { done, is_cut, failed } = sift(holder, &look, ids, &mut self.aside).await;
        if let Some(error) = failed {
            return Err(error);
        }
        // What is left is looked at once more.
        self.reached = if is_cut { look.from } else { Some(reached) };
        let promoted = done.iter().map(Look::count).sum();
        self.portion.worked(promoted, began.elapsed());
        Ok(rest(is_full || is_cut, promoted > 0)
            .unwrap_or_else(|| self.rest(done.last().and_then(|done| done.next_in))))
    }
}

/// One look.
#[derive(Clone, Copy, Debug)]
struct Look {
    from: Option<OffsetDateTime>,
    limit: i64,
}

impl Step for Look {
    const DOES: &'static str = "promote";
    type Done = Promoted;

    async fn run(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        only: Option<&[Uuid]>,
    ) -> Result<Promoted> {
        store::promote(connection, statements, self.limit, self.from, only).await
    }

    fn count(done: &Promoted) -> usize {
        usize::try_from(done.promoted).unwrap_or_default()
    }
}

impl Service for Promoter {
    const NAME: &'static str = "promoter";

    fn margin(&self) -> Duration {
        Duration::from_secs(2)
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        match self.look(holder).await {
            Err(error) if self.portion.is_cut(&error) => Ok(Duration::ZERO),
            looked => looked,
        }
    }
}

impl Promoter {
    async fn look(&mut self, holder: &Holder) -> Result<Duration> {
        let began = Instant::now();
        let from = if began >= self.full_look_from { None } else { self.reached };
        let (look, aside) = (Look { from, limit: self.portion.jobs() }, self.aside.ids(began));
        let rest = match run_whole(holder, &look, &aside, self.portion.is_single()).await? {
            Some(done) => {
                let promoted = Look::count(&done);
                let is_full = self.portion.is_full(promoted);
                self.portion.worked(promoted, began.elapsed());
                self.reached = Some(done.reached);
                if is_full { Duration::ZERO } else { self.rest(done.next_in) }
            }
            None => self.sift(holder, look, &aside).await?,
        };
        if from.is_none() {
            self.full_look_from = Instant::now() + began.elapsed() * SHARE_OF_FULL_LOOKS;
        }
        Ok(rest)
    }
}
