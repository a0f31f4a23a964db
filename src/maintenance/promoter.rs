//! Makes scheduled and retryable jobs available when they are due.
//!
//! Each look tells when the next job is due, and the promoter sleeps until then: at most its
//! interval, since a job with a shorter wait may come meanwhile. While somebody holds an old
//! snapshot, the index keeps an entry for every job that was promoted since, and a look from the
//! start passes them all. So when such looks become dear, most go on from where the last one ended,
//! and one in about ten of their costs looks from the start: for what was locked when its turn came,
//! or was committed late.

use std::time::{Duration, Instant};

use time::OffsetDateTime;

use super::{BATCH, Holder, Service};
use crate::error::Result;
use crate::store;

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
}

impl Promoter {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, reached: None, full_look_from: Instant::now() }
    }
}

impl Service for Promoter {
    const NAME: &'static str = "promoter";

    fn margin(&self) -> Duration {
        Duration::from_secs(2)
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        let mut session = holder.connection.session().await?;
        let began = Instant::now();
        let from = if began >= self.full_look_from { None } else { self.reached };
        let look = store::promote(session.connection(), &holder.statements, BATCH, from).await?;
        session.end().await?;
        if from.is_none() {
            self.full_look_from = Instant::now() + began.elapsed() * SHARE_OF_FULL_LOOKS;
        }
        self.reached = Some(look.reached);
        if look.promoted >= BATCH {
            return Ok(Duration::ZERO);
        }
        // Never longer than the interval, however short that is.
        Ok(look.next_in.unwrap_or(self.interval).max(SHORTEST_REST).min(self.interval))
    }
}
