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
//! #[job(unique(period = "1h", on_conflict = "reject"))]
//! struct SendEmail {
//!     #[job(unique)]
//!     user_id: u64,
//!     template: String,
//! }
//!
//! assert_eq!(SendEmail::KIND, "email.send");
//! ```
//!
//! One compilation reports all mistakes in a type, each at its place and with a hint:
//!
//! ```compile_fail
//! # use serde::{Deserialize, Serialize};
//! # use uniqueue::Job;
//! #[derive(Serialize, Deserialize, Job)]
//! #[job(kind = "email.send", priority = 99999)]
//! struct SendEmail {}
//! ```
//!
//! See [`Job`](macro@Job) for the whole grammar.

mod attributes;
mod consistency;
mod entries;
mod expand;
mod fields;
mod group;
mod group_check;
mod place_check;
mod problems;
mod serde_names;
mod unique;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements uniqueue's trait `Job` for a type of args.
///
/// The type must be `Serialize` and `Deserialize` and own its data. It may be any struct or enum that
/// is not generic, because a kind stands for one type of args.
///
/// # On the type
///
/// One or more attributes `#[job(...)]`:
///
/// | option | meaning | default |
/// |---|---|---|
/// | `kind = "email.send"` | the type's name in the database, 1 to 128 bytes; never change it while jobs are stored | required |
/// | `queue = "emails"` | the queue, 1 to 128 bytes | the client's |
/// | `priority = 5` | higher runs first, −32768 to 32767 | the client's |
/// | `max_attempts = 3` | the number of attempts, 1 to 32767 | the client's |
/// | `unique` | unique by all args: short for `unique(args)` | not unique |
/// | `unique(...)` | unique by the listed parts, see below | not unique |
/// | `expires_in = "15m"` | the job is discarded if it has not started this long after it is due | it does not expire |
/// | `group(customer, region)` | the group: the jobs of this kind with equal values of these fields | no group |
/// | `group = "key"`, or `group` | the group with this key, or one for all jobs of the kind | no group |
/// | `limit = 3` | the job starts only while fewer jobs of its group run, 1 to 32767 | no limit |
/// | `in_order` | the jobs of the group run one at a time, in their order | no order |
/// | `one_at_a_time` | of the jobs that `unique(...)` calls the same, one runs and one waits; as `one_at_a_time` of an insert | no such limit |
/// | `place = "unique_key"`, `"group"`, `"id"` or a field | the value that decides the place of a job, where an application has [several databases](https://docs.rs/uniqueue/latest/uniqueue/struct.Places.html) | none |
/// | `crate = "path"` | the path of the uniqueue crate | `::uniqueue` |
///
/// # On a field
///
/// | option | meaning |
/// |---|---|
/// | `#[job(unique)]` | the key contains this field and all other marked fields |
///
/// A field has the name that serde gives it, with `rename`, `rename_all` and raw identifiers. A field
/// with `skip_serializing_if` is left out of the key if it is absent from the JSON, while `null` is
/// kept. An insert fails if its JSON lacks any other marked field, as a `Serialize` written by hand may
/// cause. Only structs with named fields can have marked fields.
///
/// # In `unique(...)`
///
/// These options make the key. The kind is always part of it. At least one of them is required, unless
/// fields are marked or `like` has a key of its own:
///
/// | option | the key holds |
/// |---|---|
/// | `args` | all args |
/// | `args("user_id", "/address/zip")` | these members of the args, by name or by JSON Pointer; an insert without them fails |
/// | `queue` | the queue |
/// | `meta("tenant_id")` | these members of the meta, by name or by JSON Pointer |
/// | `kind` | the kind, as always; alone it means one job of this kind at a time; with `like = "faktory"` or `"zizq"`, whose keys hold all args, it has no effect |
/// | `exclude_kind` | no kind, so that jobs of different kinds can share a key; needs another of these options |
///
/// These options set how long a job claims its key, and what happens to a duplicate:
///
/// | option | meaning | default |
/// |---|---|---|
/// | `scope = "queued"`, `"active"`, `"completed"` or `"exists"` | the states in which a job claims its key, by name | `"active"` |
/// | `states("available", "running", ...)` | the same, state by state | – |
/// | `period = "1h"` | the claim ends this long after the job was created | no limit |
/// | `ttl = "10m"` | the claim ends this long after the job is due | no limit |
/// | `window = "15m"` | one job in each quarter of an hour of the clock | no window |
/// | `until = "start"` or `"success"` | the claim ends for good when the job starts, or only with success | by the states |
/// | `on_conflict = "ignore"`, `"reject"`, `"replace"`, `"replace_except_schedule"`, `"preempt"`, `"update"` or `"run_again"` (without `running` in the scope) | what a duplicate does | `"ignore"` |
/// | `update = "latest"`, `"merge"` or `"append"` | a duplicate changes the args of a waiting holder | `"latest"` with `on_conflict = "update"` |
/// | `max_items = 100` | with `"append"`: a holder with this number of items gives up its claim | 1,000 |
/// | `debounce = "5s", max_delay = "1m"` | the job runs this long after its latest duplicate, and this long after its insert at the latest. Beside it stands `scope = "queued"`: with the default scope a duplicate during the run is rejected | no delay |
/// | `max_delay = "1m"` alone | a duplicate moves the holder's time to its own, and this long after the holder's insert at the latest | the time is kept |
/// | `on_reentry = "go_on"` or `"discard"` | what a job does if another job holds its key when it comes back | `"go_on"` |
/// | `like = "river"`, `"ojs"`, `"faktory"` or `"zizq"` | the defaults of that queue; `"faktory"` needs `ttl`; the keys of `"faktory"` and `"zizq"` hold all args unless some are selected | our own |
/// | `gaps = "allowed"` | turns the warnings below off | warnings are on |
///
/// A job takes one of `period`, `ttl` and `window`. Lengths of time are short, such as `"90s"`, `"1h30m"`, `"7d"` or
/// `"500ms"` (units `w`, `d`, `h`, `m`, `s`, `ms`, `us`), or in ISO 8601, such as `"PT15M"`, at most 100 years. A `period`
/// or a `ttl` may have calendar years and months, such as `"P1M"`, which are added in UTC. Other lengths have none.
///
/// The words and the lengths are those of a policy's JSON document. In `states`, `active` means `running`, as there.
///
/// # Warnings
///
/// A deprecation warning points at `states` with a gap. A job leaves such a set and enters it again, as
/// with `states("available", "running")` without `retryable`. Its claim is given up in between, and
/// another job may take the key. The warning also points at sets without a waiting state, and at states
/// that `until = "start"` makes pointless.
///
/// ```compile_fail
/// #![deny(deprecated)]
/// # use serde::{Deserialize, Serialize};
/// # use uniqueue::Job;
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "import", unique(args, states("available", "running")))]
/// struct Import {}
/// ```
///
/// It points at a `window` of more than a day beside states with `completed`, too: by default completed jobs are deleted
/// after a day, and their claims with them, before the window ends. Keep the jobs of the kind's queue as long as the window
/// (`Runner::retention`), and write `gaps = "allowed"`. A `period` or a `ttl` needs no such care: a job with one is kept
/// until its claim ends.
///
/// # Args
///
/// The args are the type as serde serializes it. A struct with named fields, or with none (`struct RebuildIndex {}`),
/// becomes an object. A unit struct (`struct RebuildIndex;`) becomes `null`. SQL and the command insert `{}` by default,
/// so for a unit struct they must give `null`.
///
/// # Example
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use uniqueue::Job;
///
/// // One waits at a time, while another one may run.
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "index.rebuild", unique(kind, scope = "queued"))]
/// struct RebuildIndex {}
///
/// // Once an hour for each tenant and account. The key contains the member `accountId`.
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "account.reconcile", queue = "slow", priority = -5)]
/// #[job(unique(meta("tenant_id"), window = "1h", scope = "completed"))]
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
