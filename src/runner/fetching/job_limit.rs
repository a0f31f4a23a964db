//! How many jobs a fetch takes at most: fewer after one of many bytes, and after one whose answer did not come in time.

use crate::store::QueueDemand;

/// The bytes of jobs' values that a fetch brings at most, as far as the fetch before it tells.
const MAX_BYTES: usize = 16 << 20;

/// How many jobs the next fetch takes at most. Without a limit a thousand jobs with large args would come at once.
pub(in crate::runner) struct JobLimit {
    jobs: usize,
}

impl JobLimit {
    pub(in crate::runner) const fn none() -> Self {
        Self { jobs: usize::MAX }
    }

    /// Lowers the limit after a fetch of many bytes, so that the next one has about as many as it should. Raises it again
    /// after a fetch of so few bytes that twice as many jobs will not be too many.
    pub(in crate::runner) fn note(&mut self, jobs: usize, bytes: usize) {
        if bytes > MAX_BYTES {
            self.jobs = (jobs.saturating_mul(MAX_BYTES) / bytes).max(1);
        } else if jobs >= self.jobs && bytes <= MAX_BYTES / 2 {
            self.jobs = self.jobs.saturating_mul(2);
        }
    }

    /// Lowers the limit after a fetch of up to `jobs` jobs that was too slow: to a quarter, since the same jobs together
    /// would be too slow again and each such fetch takes half a lease; and to the number of jobs that turned out `fine`.
    pub(in crate::runner) fn note_slow(&mut self, jobs: usize, fine: usize) {
        self.jobs = (jobs.min(self.jobs) / 4).min(fine).max(1);
    }

    /// Lowers the number of jobs that each queue wants to the limit. At least one of each, so that no queue starves
    /// another.
    pub(in crate::runner) fn apply(&self, slots: &mut [QueueDemand]) {
        let mut left = self.jobs;
        for slots in slots {
            slots.free = slots.free.min(left.max(1));
            slots.idle = slots.idle.min(slots.free);
            left = left.saturating_sub(slots.free);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::GroupVisit;
    use crate::words::ident::QueueName;

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
        limit.note_slow(24, usize::MAX);
        assert_eq!(limit.jobs, 6);
        limit.note_slow(6, usize::MAX);
        assert_eq!(limit.jobs, 1);
        limit.note_slow(1, usize::MAX);
        limit.note(1, 60_000_000);
        assert_eq!(limit.jobs, 1);
        limit.note(1, 1_000);
        assert_eq!(limit.jobs, 2);
    }

    #[test]
    fn each_queue_gets_at_least_one_job_within_the_limit() {
        let wanted = |limit: &JobLimit| {
            let queue = |name| QueueDemand {
                queue: QueueName::from_stored(name),
                free: 9,
                idle: 5,
                groups: GroupVisit::none(),
            };
            let mut slots = [queue("a"), queue("b"), queue("c")];
            limit.apply(&mut slots);
            slots.map(|slots| format!("{} {} {}", slots.queue, slots.free, slots.idle))
        };
        let mut limit = JobLimit::none();
        assert_eq!(wanted(&limit), ["a 9 5", "b 9 5", "c 9 5"]);
        limit.note_slow(27, usize::MAX);
        assert_eq!(wanted(&limit), ["a 6 5", "b 1 1", "c 1 1"]);
        limit.note_slow(8, usize::MAX);
        assert_eq!(wanted(&limit), ["a 1 1", "b 1 1", "c 1 1"]);
    }
}
