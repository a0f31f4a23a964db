//! The policy language of [uniqueue](https://docs.rs/uniqueue): its words, its sets of states, its lengths of time, and
//! the rules between the members of a policy.
//!
//! The library, which reads policies as JSON documents and builds them in Rust, and the derive macro, which reads them as
//! attributes, both use this crate. So a word means the same in both, and a mistake has one text. Use it through the
//! library, which exports the types.

#[macro_use]
mod word;

mod conflict;
mod document;
mod key_parts;
mod length;
mod read_length;
mod scope;
mod states;
mod terms;
mod update;

pub use conflict::{OnConflict, OnReentry, Until};
pub use document::{Given, Policy};
pub use key_parts::{KeyParts, Part};
pub use length::{LONGEST, Length, check_window};
pub use read_length::exact;
pub use scope::UniqueScope;
pub use states::{JobState, StateSet};
pub use terms::{Preset, Terms};
pub use update::{Update, UpdateArgs};
pub use word::Problem;

#[cfg(feature = "serde")]
#[doc(hidden)]
pub use serde;

/// How long completed jobs are kept, where nothing else is set: a day.
pub const DEFAULT_RETENTION_OF_COMPLETED: std::time::Duration = std::time::Duration::from_secs(86_400);

/// The longest kind or queue name, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 128;

/// The rule that a name of a kind, a queue or a place breaks, as it ends an error. `None`: the name is valid.
#[must_use]
pub fn name_problem(given: &str) -> Option<&'static str> {
    if given.is_empty() {
        Some("must not be empty")
    } else if given.len() > MAX_NAME_BYTES {
        Some("must not be longer than 128 bytes")
    } else if given.chars().any(char::is_control) {
        Some("must not hold control characters")
    } else {
        None
    }
}
