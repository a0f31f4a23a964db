//! The queues whose defaults a policy can start from.

use crate::conflict::OnConflict;
use crate::scope::UniqueScope;
use crate::states::StateSet;

words! {
    member "like";

    /// A queue whose defaults stand where a policy has no member of its own.
    pub enum Preset {
        /// Faktory, whose `unique_for` is the policy's `ttl`.
        Faktory = "faktory",
        /// The Open Job Spec.
        Ojs = "ojs",
        /// River, whose defaults alone enforce nothing.
        River = "river",
        /// Zizq.
        Zizq = "zizq",
    }
}

impl Preset {
    /// The states in which a job claims its key.
    #[must_use]
    pub const fn states(self) -> StateSet {
        match self {
            Self::Faktory => StateSet::ALL_BUT_COMPLETED,
            Self::Ojs => UniqueScope::Active.states(),
            Self::River => UniqueScope::Completed.states(),
            Self::Zizq => UniqueScope::Queued.states(),
        }
    }

    /// The answer to a duplicate.
    #[must_use]
    pub const fn on_conflict(self) -> OnConflict {
        match self {
            Self::Faktory | Self::Ojs => OnConflict::Reject,
            Self::River | Self::Zizq => OnConflict::Ignore,
        }
    }

    /// The parts that the key is made from, as a document's `keys` name it.
    #[must_use]
    pub const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Faktory => &["type", "queue", "args"],
            Self::Ojs | Self::River => &["type"],
            Self::Zizq => &["type", "args"],
        }
    }
}
