//! `#[derive(Job)]` for [uniqueue](https://docs.rs/uniqueue).
//!
//! Use it through the library, which exports it beside the trait: `use uniqueue::Job;`.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use uniqueue::Job;
//!
//! #[derive(Serialize, Deserialize, Job)]
//! #[job(kind = "email.send", queue = "emails", max_attempts = 3)]
//! #[job(unique(period = "PT1H", on_conflict = "reject"))]
//! struct SendEmail {
//!     #[job(unique)]
//!     user_id: u64,
//!     template: String,
//! }
//!
//! assert_eq!(SendEmail::KIND, "email.send");
//! ```
//!
//! All mistakes in one type are reported by one compilation, each at its place and with its
//! remedy. What can never work is an error; see [`Job`](macro@Job) for the whole grammar.

mod attributes;
mod entries;
mod expand;
mod fields;
mod iso8601;
mod problems;
mod sense;
mod serde_names;
mod states;
mod unique;
mod words;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a type of args a job: implements uniqueue's trait `Job`.
///
/// The type must be `Serialize` and `Deserialize` and own its data. It may be a struct of any
/// form or an enum, but not generic: one kind names one type of args.
///
/// # On the type
///
/// `#[job(...)]`, once or several times:
///
/// | option | meaning | default |
/// |---|---|---|
/// | `kind = "email.send"` | the type's name in the database, 1 to 128 bytes; never change it while jobs are stored | required |
/// | `queue = "emails"` | the queue, 1 to 128 bytes | the client's |
/// | `priority = 5` | higher runs first, −32768 to 32767 | the client's |
/// | `max_attempts = 3` | how often it may run, 1 to 32767 | the client's |
/// | `unique` | unique by all args: short for `unique(args)` | not unique |
/// | `unique(...)` | unique by what is listed, see below | not unique |
/// | `crate = "path"` | where uniqueue is, if not at `::uniqueue` | `::uniqueue` |
///
/// # On a field
///
/// | option | meaning |
/// |---|---|
/// | `#[job(unique)]` | the key is made of this field and the others so marked |
///
/// A field counts under the name that serde gives it: `rename`, `rename_all` and raw
/// identifiers are honoured. A field with `skip_serializing_if` is left out of the key where it
/// is absent from the JSON, while `null` is kept; an insert whose JSON lacks any other marked
/// field (a `Serialize` written by hand may name it otherwise) fails. Structs with named fields
/// only.
///
/// # In `unique(...)`
///
/// What makes two jobs the same. The kind always counts, and at least one of these must be
/// there, unless fields are marked or `like` brings a key of its own:
///
/// | option | the key holds |
/// |---|---|
/// | `args` | all args |
/// | `args("user_id", "/address/zip")` | these members of the args, by name or by JSON Pointer; an insert without them fails |
/// | `queue` | the queue |
/// | `meta("tenant_id")` | these members of the meta, by name or by JSON Pointer |
/// | `kind` | the kind, as always: written alone, one job of this kind at a time; beside `like = "faktory"` or `"zizq"`, whose keys hold all args, it changes nothing |
/// | `exclude_kind` | no kind, so that jobs of other kinds can be the same; needs another of these |
///
/// How long a job claims its key, and what happens to a duplicate:
///
/// | option | meaning | default |
/// |---|---|---|
/// | `scope = "queued"`, `"active"`, `"completed"` or `"exists"` | the states in which a job claims its key, by name | `"active"` |
/// | `states("available", "running", ...)` | the same, state by state | – |
/// | `period = "PT1H"` | at most this long after the job was created | no limit |
/// | `ttl = "PT10M"` | at most this long after the job is due | no limit |
/// | `window = "PT15M"` | once in each quarter of an hour by the calendar | no window |
/// | `until = "start"` or `"success"` | the claim ends for good when the job starts; or with nothing but success | by the states |
/// | `on_conflict = "ignore"`, `"reject"`, `"replace"` or `"replace_except_schedule"` | what a duplicate does | `"ignore"` |
/// | `on_reentry = "go_on"` or `"discard"` | what a job does that finds its key taken when it comes back | `"go_on"` |
/// | `like = "river"`, `"ojs"`, `"faktory"` or `"zizq"` | the defaults of that queue; `"faktory"` needs `ttl`; its key and that of `"zizq"` hold all args unless some are selected | our own |
/// | `gaps = "allowed"` | turns the warnings below off | they are on |
///
/// Of `period`, `ttl` and `window` a job takes one. They are ISO 8601 durations of weeks, days,
/// hours, minutes and seconds; no years or months, and no more than 100 years.
///
/// # Warnings
///
/// A warning (as of something deprecated) points at `states` with a gap: a set that a job
/// leaves and enters again, such as `states("available", "running")` without `retryable`. Its
/// claim is given up in between, and another job may take the key. It also points at sets
/// without any waiting state, and at states that `until = "start"` makes pointless.
///
/// # Args
///
/// They are what serde makes of the type: an object of a struct with fields or with none (`struct RebuildIndex {}`).
/// A unit struct (`struct RebuildIndex;`) makes `null`, which whoever inserts from SQL or with the command must
/// then say, since args are `{}` there where nothing is said.
///
/// # Example
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use uniqueue::Job;
///
/// // One at a time, and one more may wait while it runs.
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "index.rebuild", unique(kind, scope = "queued"))]
/// struct RebuildIndex {}
///
/// // Once an hour for each tenant and account; `accountId` is the member that counts.
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "account.reconcile", queue = "slow", priority = -5)]
/// #[job(unique(meta("tenant_id"), window = "PT1H", scope = "completed"))]
/// #[serde(rename_all = "camelCase")]
/// struct Reconcile {
///     #[job(unique)]
///     account_id: u64,
///     verbose: bool,
/// }
/// ```
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::job(&input).into()
}

#[cfg(test)]
mod tests {
    #[test]
    fn durations_are_read_by_the_same_file_as_in_the_library() {
        let library = include_str!("../../../src/period/iso8601.rs");
        assert_eq!(include_str!("iso8601.rs"), library, "copy src/period/iso8601.rs");
    }
}
