//! An input that was not inserted because another job claims its key.

use std::fmt;

use serde::Serialize;

use crate::ident::JobId;
use crate::state::JobState;
use crate::unique::Duplicate;

/// One input of an insert that was refused, and the job that claims its key.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Rejection {
    /// The index of the input in the call, counted from 0.
    pub index: usize,
    /// The job that claims the key. If `earlier` is set, it was not inserted either, and no job has this id.
    pub holder: JobId,
    /// The holder's state at the time of the insert.
    pub holder_state: JobState,
    /// The index of the input that is the holder, where two inputs of one call have the same key.
    pub earlier: Option<usize>,
    /// The key, for how long the holder has it, and the event that frees it.
    pub duplicate: Duplicate,
}

impl Rejection {
    pub(crate) const fn new(index: usize, earlier: Option<usize>, duplicate: Duplicate) -> Self {
        Self { index, holder: duplicate.holder, holder_state: duplicate.holder_state, earlier, duplicate }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.earlier {
            Some(index) => write!(f, "{index} of the same call"),
            None => write!(f, "{} ({})", self.holder, self.holder_state),
        }
    }
}
