//! Counts with a limit.

use std::fmt;
use std::iter::Sum;

use serde::{Deserialize, Serialize};

/// A number of jobs: exact, an estimate, or a lower bound. Counting stops at a limit, because a queue may hold ten
/// million jobs.
///
/// ```
/// use uniqueue::JobCount;
///
/// assert_eq!(JobCount::Exactly(42).to_string(), "42");
/// assert_eq!(JobCount::About(537_261).to_string(), "~537 k");
/// assert_eq!(JobCount::AtLeast(10_000).to_string(), "> 10 k");
/// ```
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobCount {
    /// All jobs were counted.
    Exactly(u64),
    /// Counting stopped, and the number is estimated from a sample of the table, which may differ by a tenth or more.
    About(u64),
    /// Counting stopped here, and there may be more jobs.
    AtLeast(u64),
}

impl JobCount {
    /// Returns the number of jobs that were counted, or of the estimate.
    #[must_use]
    pub const fn counted(self) -> u64 {
        match self {
            JobCount::Exactly(counted) | JobCount::About(counted) | JobCount::AtLeast(counted) => counted,
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

/// The sum is exact if every count is, and else an estimate if one count is.
impl Sum for JobCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(JobCount::Exactly(0), |sum, count| {
            let counted = sum.counted().saturating_add(count.counted());
            match (sum, count) {
                (JobCount::Exactly(_), JobCount::Exactly(_)) => JobCount::Exactly(counted),
                (JobCount::About(_), _) | (_, JobCount::About(_)) => JobCount::About(counted),
                _ => JobCount::AtLeast(counted),
            }
        })
    }
}

/// An exact number with all its digits, `~` and a rounded estimate, or `>` and a rounded lower bound.
impl fmt::Display for JobCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match *self {
            JobCount::Exactly(counted) => counted.to_string(),
            JobCount::About(estimate) => format!("~{}", rounded(estimate)),
            JobCount::AtLeast(counted) => format!("> {}", rounded(counted)),
        })
    }
}

/// A number of at most three digits and its unit.
fn rounded(number: u64) -> String {
    let of = |unit: f64| number as f64 / unit;
    match number {
        0..1_000 => number.to_string(),
        1_000..9_950 => format!("{:.1} k", of(1e3)),
        9_950..999_500 => format!("{:.0} k", of(1e3)),
        999_500..9_950_000 => format!("{:.1} M", of(1e6)),
        _ => format!("{:.0} M", of(1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_as_sure_as_its_least_sure_part() {
        use JobCount::{About, AtLeast, Exactly};
        assert_eq!([Exactly(1), Exactly(2)].into_iter().sum::<JobCount>(), Exactly(3));
        assert_eq!([Exactly(1), AtLeast(2)].into_iter().sum::<JobCount>(), AtLeast(3));
        assert_eq!([AtLeast(1), About(2), Exactly(3)].into_iter().sum::<JobCount>(), About(6));
    }

    #[test]
    fn a_rounded_number_has_at_most_three_digits() {
        let shown = [999, 1_000, 9_949, 9_950, 537_261, 999_499, 999_500, 9_950_000, 12_345_678].map(rounded);
        assert_eq!(shown, ["999", "1.0 k", "9.9 k", "10 k", "537 k", "999 k", "1.0 M", "10 M", "12 M"]);
    }
}
