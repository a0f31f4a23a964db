//! Uniqueness without SQL: how a key is made, in which states and for how long it is claimed, and
//! how inserts react to a holder.
//!
//! ```text
//! UniqueKey ──────────────────────────────┐
//! UniquePolicy ─▶ fingerprint ─▶ canonical ─▶ SHA-256 ─▶ key ─▶ Claim ─▶ store
//!                                (bytes)
//! ```
//!
//! # The rules
//!
//! 1. A *policy* makes the key from parts of the job: its kind unless excluded, and the parts that
//!    the policy adds (args, parts of args, parts of meta, queue, window). A [`UniqueKey`] is a
//!    key made by the caller, without any of these parts.
//! 2. The *fingerprint* is a JSON object of those parts. Its canonical text (RFC 8785 and NFC,
//!    integers exact) decides equality: the same value gives the same key from a Rust struct, a
//!    `serde_json::Value`, JSON text or the `jsonb` in the row, in every member order.
//! 3. The key's *claim* holds while the holder's state is in the holder's own [`StateSet`], and
//!    no longer than its `period` or `ttl`. A window is no limit on the claim: it is part of the
//!    key.
//! 4. The newcomer's [`OnConflict`] decides how its insert reacts to a holder. A job's own
//!    [`OnReentry`] decides how it reacts when it comes back and another job holds its key.
//!
//! The words, the sets of states, the lengths and the rules between the members of a policy are in the crate
//! `uniqueue-policy`, which the derive macro uses as well.
//!
//! # Invariants
//!
//! - Nothing here reads a clock: a window policy says that it needs one (`UniquePolicy::needs_clock`), and the
//!   caller brings the database's time.
//! - Nothing here panics on any input, and no nesting overflows the stack: values nested deeper
//!   than `serde_json` reads back (127 levels) are errors.
//! - Builders never fail; [`UniquePolicy::check`], [`UniquePolicy::resolve`] and
//!   [`UniqueKey::text`] report the problems of their arguments.
//! - Cargo unifies features: another crate of the application may switch on `serde_json`'s
//!   `preserve_order` or `arbitrary_precision`. Keys do not change with either.

#[macro_use]
mod claim;
mod document;
mod duplicate;
mod fingerprint;
mod in_words;
mod policy;
mod raw_key;
mod resolve;
mod zizq;

pub use claim::Claim;
pub use duplicate::{Duplicate, InsertOutcome, RefusedRetry};
pub use fingerprint::Subject;
pub(crate) use fingerprint::named_args;
pub use policy::UniquePolicy;
pub use raw_key::{MAX_KEY_BYTES, UniqueKey};
#[doc(inline)]
pub use uniqueue_policy::{OnConflict, OnReentry, Problem, StateSet, Terms, UniqueScope, Until, Update, UpdateArgs};
