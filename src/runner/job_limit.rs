//! How many jobs a fetch takes at most: fewer after one of many bytes, and after one whose answer did not come in time.

use crate::client::answer;
use crate::error::Error;
use crate::store::Slots;

/// The bytes of args that a fetch brings at most, as far as the fetch before it tells.
const MAX_BYTES: usize = 16 << 20;

/// How many jobs the next fetch takes at most. Without a limit a thousand jobs with large args would come at once.
pub(super) struct JobLimit {
    jobs: usize,
    /// Set after a fetch of one job of each queue was too slow: the next fetch takes a job of one queue, each in its turn.
    turn: Option<usize>,
}

impl JobLimit {
    pub(super) const fn none() -> Self {
        Self { jobs: usize::MAX, turn: None }
    }

    /// Lowers the limit after a fetch of many bytes, so that the next one has about as many as it should. Raises it again
    /// after a fetch of few.
    pub(super) fn note(&mut self, jobs: usize, bytes: usize) {
        self.turn = self.turn.map(|turn| turn + 1);
        if bytes > MAX_BYTES {
            self.jobs = (jobs.saturating_mul(MAX_BYTES) / bytes).max(1);
        } else if jobs >= self.jobs {
            self.jobs = self.jobs.saturating_mul(2);
            self.turn = None;
        } else if jobs == 0 {
            // The other queues may have some.
            self.turn = None;
        }
    }

    /// Lowers the limit after a fetch of up to `jobs` jobs that was too slow: the same jobs together would be again. To a
    /// quarter, since each such fetch takes half a lease. Answers whether not even single jobs came in time.
    pub(super) fn note_slow(&mut self, jobs: usize) -> bool {
        let tried = jobs.min(self.jobs);
        self.jobs = (tried / 4).max(1);
        if tried <= 1 {
            self.turn = Some(self.turn.map_or(0, |turn| turn + 1));
        }
        tried <= 1
    }

    /// Lowers the number of jobs that each queue wants to the limit. At least one of each, so that no queue starves
    /// another, or one of a single queue.
    pub(super) fn apply(&self, slots: &mut Vec<Slots>) {
        if let Some(turn) = self.turn
            && !slots.is_empty()
        {
            *slots = vec![slots.swap_remove(turn % slots.len())];
        }
        let mut left = self.jobs;
        for slots in slots {
            slots.free = slots.free.min(left.max(1));
            slots.idle = slots.idle.min(slots.free);
            left = left.saturating_sub(slots.free);
        }
    }
}

/// Whether a fetch failed because its jobs did not come in time, or were more than the server's memory holds.
pub(super) fn is_too_slow(error: &Error) -> bool {
    let is_out_of_memory = || match error {
        Error::Database(sqlx::Error::Database(database)) => database.code().as_deref() == Some("53200"),
        _ => false,
    };
    error.is_statement_timeout() || answer::is_missing(error) || is_out_of_memory()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::QueueName;
    use crate::store::GroupVisit;

    #[test]
    fn a_fetch_of_many_bytes_is_followed_by_fewer_jobs() {
        let mut limit = JobLimit::none();
        limit.note(1_000, MAX_BYTES);
        assert_eq!(limit.jobs, usize::MAX);
        limit.note(24, 24 * 60_000_000);
        assert_eq!(limit.jobs, 1);
        // The average of the jobs that come is as before.
        limit.note(1_000, 1_000 * (1 << 20));
        assert_eq!(limit.jobs, 16);
        // Jobs with small args lift the limit. Fewer jobs than it allows say nothing.
        limit.note(5, 5);
        assert_eq!(limit.jobs, 16);
        limit.note(16, 16);
        assert_eq!(limit.jobs, 32);
    }

    #[test]
    fn a_fetch_that_is_too_slow_is_followed_by_fewer_jobs() {
        let mut limit = JobLimit::none();
        assert!(!limit.note_slow(24));
        assert_eq!(limit.jobs, 6);
        assert!(!limit.note_slow(6));
        assert_eq!(limit.jobs, 1);
        assert!(limit.note_slow(1), "not even one came in time");
        limit.note(1, 60_000_000);
        assert_eq!(limit.jobs, 1);
        limit.note(1, 1_000);
        assert_eq!(limit.jobs, 2);
    }

    #[test]
    fn queues_whose_jobs_do_not_come_in_time_together_take_turns() {
        let wanted = |limit: &JobLimit| {
            let queue =
                |name| Slots { queue: QueueName::from_stored(name), free: 9, idle: 5, groups: GroupVisit::none() };
            let mut slots = vec![queue("a"), queue("b"), queue("c")];
            limit.apply(&mut slots);
            slots.iter().map(|slots| format!("{} {} {}", slots.queue, slots.free, slots.idle)).collect::<Vec<_>>()
        };
        let mut limit = JobLimit::none();
        assert_eq!(wanted(&limit), ["a 9 5", "b 9 5", "c 9 5"]);
        assert!(!limit.note_slow(27));
        assert_eq!(wanted(&limit), ["a 6 5", "b 1 1", "c 1 1"]);
        assert!(!limit.note_slow(8));
        assert_eq!(wanted(&limit), ["a 1 1", "b 1 1", "c 1 1"]);
        assert!(limit.note_slow(3));
        for one in ["a 1 1", "b 1 1", "c 1 1", "a 1 1"] {
            assert_eq!(wanted(&limit), [one]);
            limit.note(1, 60_000_000);
        }
        limit.note(1, 1_000);
        assert_eq!(wanted(&limit), ["a 2 2", "b 1 1", "c 1 1"]);
    }
}
