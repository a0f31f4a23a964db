//! A state from its name. Apart from the states, since errors carry states.

use std::str::FromStr;

use super::JobState;
use crate::error::{Error, Result};

impl FromStr for JobState {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        JobState::ALL
            .into_iter()
            .find(|state| state.as_str() == given)
            .ok_or_else(|| Error::UnknownState { given: given.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_reads_back_from_its_name() {
        for state in JobState::ALL {
            assert_eq!(state.as_str().parse::<JobState>().unwrap(), state);
            assert_eq!(serde_json::to_value(state).unwrap(), serde_json::json!(state.as_str()));
        }
    }

    #[test]
    fn an_unknown_state_is_named_in_the_error() {
        let error = "active".parse::<JobState>().unwrap_err();
        assert!(error.to_string().contains("\"active\""), "{error}");
    }
}
