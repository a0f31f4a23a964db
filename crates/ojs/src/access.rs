//! The rights of a request.

/// The rights of a request, which the function of [`Ojs::access`](crate::Ojs::access) returns.
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
