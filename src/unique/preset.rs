//! The queues whose defaults a policy document can start from.

use std::str::FromStr;

use crate::error::{Error, Result};
use crate::unique::conflict::OnConflict;
use crate::unique::flaw::invalid;
use crate::unique::policy::UniquePolicy;
use crate::unique::scope::UniqueScope;
use crate::unique::states::StateSet;

/// A queue whose defaults stand where a policy document has no member of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Preset {
    /// [`UniquePolicy::faktory`], whose `unique_for` is the document's `ttl`.
    Faktory,
    /// [`UniquePolicy::ojs`].
    Ojs,
    /// [`UniquePolicy::river`]: by itself it enforces nothing.
    River,
    /// [`UniquePolicy::zizq`].
    Zizq,
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        match given {
            "faktory" => Ok(Self::Faktory),
            "ojs" => Ok(Self::Ojs),
            "river" => Ok(Self::River),
            "zizq" => Ok(Self::Zizq),
            _ => Err(invalid("like", format!("must be one of faktory, ojs, river, zizq: {given:?}"))),
        }
    }
}

impl Preset {
    /// The policy without any dimension but the kind.
    pub(crate) fn terms(self) -> UniquePolicy {
        let (states, on_conflict) = match self {
            Self::Faktory => (StateSet::ALL_BUT_COMPLETED, OnConflict::Reject),
            Self::Ojs => (UniqueScope::Active.states(), OnConflict::Reject),
            Self::River => (UniqueScope::Completed.states(), OnConflict::Ignore),
            Self::Zizq => (UniqueScope::Queued.states(), OnConflict::Ignore),
        };
        UniquePolicy::new().states(states).on_conflict(on_conflict)
    }

    /// The dimensions of its keys, as the document's `keys` names them.
    pub(crate) const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Faktory => &["type", "queue", "args"],
            Self::Ojs | Self::River => &["type"],
            Self::Zizq => &["type", "args"],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_preset_is_the_policy_of_its_constructor() {
        for (document, policy) in [
            (json!({"like": "zizq"}), UniquePolicy::zizq()),
            (json!({"like": "river"}), UniquePolicy::river()),
            (json!({"like": "ojs"}), UniquePolicy::ojs()),
            (json!({"like": "faktory", "ttl": "PT10M"}), UniquePolicy::faktory(Duration::from_secs(600))),
        ] {
            // The default of the reader is for documents without a preset.
            for default in [OnConflict::Replace, OnConflict::Reject] {
                assert_eq!(UniquePolicy::from_json_with_default(&document, default).unwrap(), policy, "{document}");
            }
        }
    }
}
