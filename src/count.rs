//! Counts with a limit.

use std::fmt;
use std::iter::Sum;

use serde::Serialize;

/// A number of jobs, exact or a lower bound. Counting stops at a limit, because a queue may hold ten
/// million jobs.
///
/// ```
/// use uniqueue::JobCount;
///
/// assert_eq!(JobCount::Exactly(42).to_string(), "42");
/// assert_eq!(JobCount::AtLeast(10_000).to_string(), "10000+");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobCount {
    /// All jobs were counted.
    Exactly(u64),
    /// Counting stopped here, and there may be more jobs.
    AtLeast(u64),
}

impl JobCount {
    /// Returns the number of jobs that were counted.
    #[must_use]
    pub const fn counted(self) -> u64 {
        match self {
            JobCount::Exactly(counted) | JobCount::AtLeast(counted) => counted,
        }
    }

    /// Whether all jobs were counted.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        matches!(self, JobCount::Exactly(_))
    }

    /// Converts the result of a count that stopped at one more than `up_to`.
    pub(crate) fn up_to(up_to: u64, found: u64) -> Self {
        if found > up_to { JobCount::AtLeast(up_to) } else { JobCount::Exactly(found) }
    }
}

/// The sum is exact if every count is.
impl Sum for JobCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(JobCount::Exactly(0), |sum, count| {
            let counted = sum.counted().saturating_add(count.counted());
            match sum.is_exact() && count.is_exact() {
                true => JobCount::Exactly(counted),
                false => JobCount::AtLeast(counted),
            }
        })
    }
}

impl fmt::Display for JobCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.is_exact() { "" } else { "+" };
        f.pad(&format!("{}{more}", self.counted()))
    }
}
