//! The batch size of a service: smaller after a statement timeout.
//!
//! The cost of each row depends on the application: the row may have a trigger, or rows that refer to it by a foreign key
//! without an index. A statement that times out does nothing, and would time out each time. Where a statement for a
//! single job times out, that job is [set aside](super::set_aside).

use std::time::Duration;

use crate::error::Error;

/// The batch size of most services.
pub(super) const BATCH: i64 = 1_000;

/// After a statement that was quicker than this, the batch size doubles: the statement timeout is five seconds.
const QUICK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct BatchSize {
    largest: i64,
    jobs: i64,
}

impl BatchSize {
    pub(super) const fn new(largest: i64) -> Self {
        Self { largest, jobs: largest }
    }

    /// The most jobs that the next statement takes.
    pub(super) const fn jobs(&self) -> i64 {
        self.jobs
    }

    /// Whether a batch of this many jobs is full, so that there may be more.
    pub(super) fn is_full(&self, jobs: usize) -> bool {
        i64::try_from(jobs).map_or(true, |jobs| jobs >= self.jobs)
    }

    /// Whether a statement takes one job.
    pub(super) const fn is_single(&self) -> bool {
        self.jobs == 1
    }

    /// Makes the next batch smaller after a statement timeout. Returns whether the statement is worth another try.
    pub(super) fn shrink_after(&mut self, error: &Error) -> bool {
        let helps = error.is_statement_timeout() && !self.is_single();
        if helps {
            self.jobs = (self.jobs / 10).max(1);
            tracing::debug!(%error, jobs = self.jobs, "maintenance takes smaller batches after a statement timeout");
        }
        helps
    }

    /// Makes the next batch larger after a quick statement. One that did little says nothing about a larger one.
    pub(super) fn grow_after(&mut self, jobs: usize, took: Duration) {
        if took < QUICK && self.is_full(jobs.saturating_mul(2)) {
            self.jobs = (self.jobs * 2).min(self.largest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_back_while_statements_are_quick() {
        let mut size = BatchSize { largest: 1_000, jobs: 250 };
        size.grow_after(250, QUICK);
        size.grow_after(124, QUICK / 2);
        assert_eq!(size.jobs(), 250);
        for (done, jobs) in [(125, 500), (500, 1_000), (1_000, 1_000)] {
            size.grow_after(done, QUICK / 2);
            assert_eq!(size.jobs(), jobs);
        }
        assert!(size.is_full(1_000) && !size.is_full(999));
    }

    #[test]
    fn no_other_error_makes_it_smaller() {
        let mut size = BatchSize::new(1_000);
        assert!(!size.shrink_after(&Error::Database(sqlx::Error::PoolTimedOut)));
        assert_eq!(size.jobs(), 1_000);
    }
}
