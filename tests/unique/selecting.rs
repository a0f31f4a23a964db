//! Which jobs: filters, pages, counts, and changes by filter.

mod changes;
mod filters;
