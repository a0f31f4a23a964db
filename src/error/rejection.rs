//! An input that was not inserted because another job claims its key.

use std::fmt;

use serde::Serialize;

use crate::unique::Duplicate;
use crate::words::ident::JobId;
use crate::words::state::JobState;

/// One input of an insert that was refused, and the job that claims its key.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Rejection {
    /// The index of the input in the call, counted from 0.
    pub index: usize,
    /// The job that claims the key. `None`: `earlier` has it, which was not inserted either.
    pub holder: Option<JobId>,
    /// The holder's state at the time of the insert.
    pub holder_state: Option<JobState>,
    /// The index of the input that would be the holder, where two inputs of one call have the same key.
    pub earlier: Option<usize>,
    /// The key, for how long the holder has it, and the event that frees it.
    pub duplicate: Option<Duplicate>,
}

impl Rejection {
    pub(crate) fn of_holder(index: usize, duplicate: Duplicate) -> Self {
        let (holder, holder_state) = (Some(duplicate.holder), Some(duplicate.holder_state));
        Self { index, holder, holder_state, earlier: None, duplicate: Some(duplicate) }
    }

    pub(crate) const fn of_earlier(index: usize, earlier: usize) -> Self {
        Self { index, holder: None, holder_state: None, earlier: Some(earlier), duplicate: None }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.earlier, &self.duplicate) {
            (Some(index), _) => write!(f, "{index} of the same call"),
            (None, Some(Duplicate { holder, holder_state, .. })) => write!(f, "{holder} ({holder_state})"),
            (None, None) => write!(f, "another"),
        }
    }
}
