//! Options that the command line may leave out.

use uniqueue::NewJob;

use crate::time_argument::DurationArgument;

/// Sets the options of a builder that the command line has.
pub(crate) trait Given: Sized {
    /// Sets an option if it has a value.
    fn given<T>(self, value: Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }

    /// Sets an option that has no value if it `is_given`.
    fn given_flag(self, is_given: bool, set: impl FnOnce(Self) -> Self) -> Self {
        if is_given { set(self) } else { self }
    }
}

impl<B> Given for B {}

/// Lets a job expire this long after it is due, or never for zero.
pub(crate) fn expires_in_or_never(job: NewJob, DurationArgument(length): DurationArgument) -> NewJob {
    if length.is_zero() { job.never_expires() } else { job.expires_in(length) }
}
