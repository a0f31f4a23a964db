//! The job that is measured: it does nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uniqueue::{Job, NewJob, OnConflict, UniqueKey, UniquePolicy};

/// A job that does nothing.
#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "bench", queue = "bench")]
pub(crate) struct NoOp {
    pub(crate) n: u64,
    /// Makes the args longer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) pad: String,
}

/// The properties that the jobs of a run share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Bytes of args beyond the number.
    pub(crate) pad: usize,
    pub(crate) keys: Keys,
    /// The effect of a duplicate on its holder.
    pub(crate) on_conflict: OnConflict,
    pub(crate) priority: i16,
}

/// Which jobs share a unique key. Keys are numbered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Keys {
    /// No job has a key.
    None,
    /// This many different keys, one after the other.
    Different(u64),
    /// The same, and each key has a holder before the run starts: all inserts are duplicates.
    Held(u64),
    /// Every second insert meets one of this many holders, each once. The others have new keys.
    HalfHeld(u64),
}

impl Keys {
    /// The number that stands in the args of a job: that of its key, where it has one.
    pub(crate) const fn number(self, n: u64) -> u64 {
        match self {
            Self::None => n,
            Self::Different(keys) | Self::Held(keys) => n % keys,
            Self::HalfHeld(held) => {
                if n.is_multiple_of(2) {
                    n / 2
                } else {
                    held + n / 2
                }
            }
        }
    }

    /// Every key below this number has a holder before the run starts.
    pub(crate) const fn held(self) -> u64 {
        match self {
            Self::None | Self::Different(_) => 0,
            Self::Held(held) | Self::HalfHeld(held) => held,
        }
    }

    /// How many rows there are after `n` inserts.
    pub(crate) const fn rows(self, n: u64) -> u64 {
        match self {
            Self::None => n,
            Self::Different(keys) => {
                if keys < n {
                    keys
                } else {
                    n
                }
            }
            Self::Held(held) => held,
            Self::HalfHeld(held) => held + n / 2,
        }
    }
}

impl Kind {
    pub(crate) const PLAIN: Self = Self { pad: 0, keys: Keys::None, on_conflict: OnConflict::Ignore, priority: 0 };

    /// The args of a job. Jobs of one key have the same args.
    pub(crate) fn args(self, number: u64) -> NoOp {
        NoOp { n: number, pad: noise(number, self.pad) }
    }

    /// A job as an application makes it: its key is the hash of its args. A holder to change has a key of its own, since
    /// the args that a key is made from cannot be changed, and it does not become due meanwhile.
    pub(crate) fn job(self, number: u64) -> NewJob {
        let job = NewJob::from(self.args(number)).priority(self.priority);
        match (self.keys, self.on_conflict) {
            (Keys::None, _) => job,
            (_, OnConflict::Ignore) => job.unique(UniquePolicy::new().by_args()),
            (_, change) => {
                let key = UniqueKey::raw(number.to_string()).on_conflict(change);
                job.unique_key(key).scheduled_in(Duration::from_secs(3_600))
            }
        }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_set_of_keys_stores_the_expected_rows() {
        for n in [1, 2, 7, 20] {
            for keys in [Keys::None, Keys::Different(5), Keys::Different(100), Keys::Held(5), Keys::HalfHeld(10)] {
                let stored: BTreeSet<u64> = (0..keys.held()).chain((0..n).map(|n| keys.number(n))).collect();
                assert_eq!(stored.len() as u64, keys.rows(n), "{keys:?}, {n}");
            }
        }
    }

    #[test]
    fn half_of_the_inserts_meet_a_holder_each() {
        let keys = Keys::HalfHeld(10);
        let held: Vec<u64> = (0..20).map(|n| keys.number(n)).filter(|number| *number < keys.held()).collect();
        assert_eq!(held, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn args_have_the_length_of_the_pad_and_differ() {
        let kind = Kind { pad: 100, ..Kind::PLAIN };
        assert_eq!(kind.args(3).pad.len(), 100);
        assert_ne!(kind.args(3).pad, kind.args(4).pad);
    }
}
