//! The clients for Python and TypeScript: their own tests, their pages, and one queue over all languages.

mod deaths;
mod one_queue;
mod suites;
