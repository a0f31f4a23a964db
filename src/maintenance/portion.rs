//! How many jobs a statement takes: fewer after one that the server ended since it took too long.
//!
//! What each row costs is not the queue's to say: it may have a trigger of the application's, or rows that refer to it by a
//! foreign key without an index. A statement that is ended does nothing, and would be ended each time. What is ended with a
//! single job is that job's matter: [sifting](super::sifting) leaves it out for a while.

use std::time::Duration;

use crate::error::Error;

/// A statement that is quicker than this may take twice as many the next time, well within its time.
const QUICK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Portion {
    most: i64,
    jobs: i64,
}

impl Portion {
    pub(super) const fn new(most: i64) -> Self {
        Self { most, jobs: most }
    }

    /// How many the next statement takes at most.
    pub(super) const fn jobs(&self) -> i64 {
        self.jobs
    }

    /// Whether it is so many jobs that there may be more.
    pub(super) fn is_full(&self, jobs: usize) -> bool {
        i64::try_from(jobs).map_or(true, |jobs| jobs >= self.jobs)
    }

    /// Whether it takes one at a time.
    pub(super) const fn is_single(&self) -> bool {
        self.jobs == 1
    }

    /// Takes fewer if that helps against an error. `true`: it may.
    pub(super) fn is_cut(&mut self, error: &Error) -> bool {
        let helps = error.is_statement_timeout() && !self.is_single();
        if helps {
            self.jobs = (self.jobs / 10).max(1);
            tracing::debug!(%error, jobs = self.jobs, "fewer at once");
        }
        helps
    }

    /// Notes what a statement did, and how long that took. Of one that did little nothing is learnt.
    pub(super) fn worked(&mut self, jobs: usize, took: Duration) {
        if took < QUICK && self.is_full(jobs.saturating_mul(2)) {
            self.jobs = (self.jobs * 2).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_back_while_statements_are_quick() {
        let mut portion = Portion { most: 1_000, jobs: 250 };
        portion.worked(250, QUICK);
        portion.worked(124, QUICK / 2);
        assert_eq!(portion.jobs(), 250);
        for (done, jobs) in [(125, 500), (500, 1_000), (1_000, 1_000)] {
            portion.worked(done, QUICK / 2);
            assert_eq!(portion.jobs(), jobs);
        }
        assert!(portion.is_full(1_000) && !portion.is_full(999));
    }

    #[test]
    fn no_other_error_makes_it_smaller() {
        let mut portion = Portion::new(1_000);
        assert!(!portion.is_cut(&Error::Database(sqlx::Error::PoolTimedOut)));
        assert_eq!(portion.jobs(), 1_000);
    }
}
