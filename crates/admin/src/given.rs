//! Options that a command line or a form may leave out.

/// Sets the options of a builder that were given.
///
/// ```
/// use uniqueue::JobFilter;
/// use uniqueue_admin::Given;
///
/// let (queue, limit) = (Some("emails"), None);
/// let filter = JobFilter::new().given(queue, JobFilter::queue).given(limit, JobFilter::limit);
/// # let _ = filter;
/// ```
pub trait Given: Sized {
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
