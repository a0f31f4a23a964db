//! How a command that ran to its end ended.

use std::process::ExitCode;

/// The result of a command that ran to its end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// Exit code 0.
    #[default]
    Fine,
    /// Exit code 1: the command found something wrong, or could not change all that was asked for.
    NotFine,
    /// Exit code 3: `doctor` found something critical.
    Critical,
    /// Exit code 4: `doctor` found nothing wrong, but its role may not see the queue.
    Unseen,
}

impl Verdict {
    /// The worse of two verdicts.
    pub(crate) fn or_worse(self, other: Self) -> Self {
        let rank = |verdict: Self| match verdict {
            Self::Fine => 0,
            Self::Unseen => 1,
            Self::NotFine => 2,
            Self::Critical => 3,
        };
        if rank(other) > rank(self) { other } else { self }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::NotFine => 1,
            Self::Critical => 3,
            Self::Unseen => 4,
        }
    }
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        Self::from(verdict.code())
    }
}
