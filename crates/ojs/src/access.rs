//! What a request may do.

/// What a request may do, as the function of [`Ojs::access`](crate::Ojs::access) answers it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Access {
    /// Nothing but the health check.
    None,
    /// Reading: every GET.
    Read,
    /// Everything.
    All,
}
