//! The job that is measured: it does nothing.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use uniqueue::{Job, NewJob, UniquePolicy};

/// A job that does nothing.
#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "bench", queue = "bench")]
pub(super) struct NoOp {
    pub(super) n: u64,
    /// What makes the args longer, where they are to be.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) pad: String,
}

/// What is inserted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// Bytes of args beyond the number.
    pub(super) pad: usize,
    /// With a unique key each, of so many different ones.
    pub(super) keys: Option<u64>,
    pub(super) priority: i16,
}

impl Kind {
    pub(super) const PLAIN: Self = Self { pad: 0, keys: None, priority: 0 };

    /// The args of a job. Those of one key are the same.
    pub(super) fn args(self, n: u64) -> NoOp {
        let n = self.keys.map_or(n, |keys| n % keys);
        NoOp { n, pad: noise(n, self.pad) }
    }

    /// A job as an application makes it: its key is the hash of its args.
    pub(super) fn job(self, n: u64) -> NewJob {
        let job = NewJob::from(self.args(n)).priority(self.priority);
        if self.keys.is_some() { job.unique(UniquePolicy::new().by_args()) } else { job }
    }
}

/// Text that does not compress: PostgreSQL would store repetitions small.
fn noise(seed: u64, length: usize) -> String {
    const DIGITS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(DIGITS[(state % 64) as usize])
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// The numbers from 0 to n, each given out once, to whoever comes.
pub(super) struct Numbers {
    next: AtomicU64,
    end: u64,
}

impl Numbers {
    pub(super) const fn new(n: u64) -> Self {
        Self { next: AtomicU64::new(0), end: n }
    }

    /// The next so many, or what is left of them.
    pub(super) fn take(&self, count: u64) -> Option<Range<u64>> {
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        (first < self.end).then(|| first..self.end.min(first + count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_given_out_once() {
        let numbers = Numbers::new(25);
        let taken: Vec<u64> = std::iter::from_fn(|| numbers.take(10)).flatten().collect();
        assert_eq!(taken, (0..25).collect::<Vec<_>>());
    }

    #[test]
    fn jobs_of_one_key_have_the_same_args() {
        let kind = Kind { pad: 100, keys: Some(7), ..Kind::PLAIN };
        let text = |n| serde_json::to_string(&kind.args(n)).unwrap();
        assert_eq!(text(3), text(10));
        assert_ne!(text(3), text(4));
        assert_eq!(kind.args(3).pad.len(), 100);
    }
}
