#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
//!
//! The guides and the licences that this page links to are files of the repository, in `docs` and beside the README.

mod client;
mod error;
pub mod json;
mod maintenance;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "metrics/off.rs"]
mod metrics;
mod notify;
pub mod period;
mod places;
mod runner;
#[cfg(feature = "periodic")]
mod schedule;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod unique;
mod words;
mod worker;

/// Bringing the schema up to date.
#[cfg(feature = "migrate")]
pub use self::client::Migration;
/// Inserting and looking.
pub use self::client::{
    Call, Change, Client, ClientBuilder, Events, Explanation, Insert, InsertMany, InsertMiddleware, NextInsert, Queue,
    Wait,
};
/// Errors.
pub use self::error::{Error, Rejection, Result};
/// Lengths of time as text.
pub use self::period::format_duration;
pub use self::places::{PlaceAddress, PlaceAnswer, PlaceMap, PlaceState, Places, PlacesHandle, PlacesRunner};
pub use self::runner::{Maintainer, MaintainerHandle, Runner, RunnerHandle, RunnerHealth, shutdown_signal};
#[cfg(feature = "periodic")]
pub use self::schedule::CatchUp;
pub use self::store::LATEST_VERSION as SCHEMA_VERSION;
/// Uniqueness.
pub use self::unique::{
    Claim, Duplicate, InsertOutcome, MAX_KEY_BYTES, OnConflict, OnReentry, Problem, RefusedRetry, StateSet, Subject,
    Terms, UniqueKey, UniquePolicy, UniqueScope, Until, Update, UpdateArgs,
};
/// Jobs that run after others.
pub use self::words::after::{AfterCondition, JobParent, Parents};
/// Jobs.
pub use self::words::attempt_error::AttemptError;
/// Which jobs, and how many.
pub use self::words::count::JobCount;
/// Events.
pub use self::words::event::{Event, Happened};
pub use self::words::filter::{JobFilter, JobSelection};
#[cfg(feature = "periodic")]
pub use self::words::ident::PeriodicName;
/// Names.
pub use self::words::ident::{JobId, Kind, MAX_NAME_BYTES, MAX_SCHEMA_BYTES, PlaceName, QueueName, SchemaName};
pub use self::words::job::{Inserted, Job, JobRow, NewJob};
/// Working.
pub use self::words::job_error::JobError;
/// Options and states.
pub use self::words::opts::{DEFAULT_MAX_ATTEMPTS, InsertOptions};
pub use self::words::outcome::{BoxError, IntoResult, Outcome};
#[cfg(feature = "periodic")]
pub use self::words::periodic::PeriodicJob;
/// Several databases.
pub use self::words::place_by::PlaceBy;
/// Queues.
pub use self::words::queue::{QueueChanges, QueueSettings};
pub use self::words::rate::Rate;
pub use self::words::retention::{Keep, Retention};
pub use self::words::retry::RetryPolicy;
pub use self::words::state::JobState;
/// Results that were waited for.
pub use self::words::wait_result::Waited;
pub use self::worker::{
    AnyJob, BatchResults, BatchWorker, IntoResults, Middleware, Needs, Next, Progress, RunningJob, StopReason, Worker,
    WorkerOptions,
};

/// For the crates of operators and of remote workers.
#[doc(hidden)]
pub use self::client::{policies_of_kind, publish_cancelled};
#[doc(hidden)]
pub use self::store::{MIGRATIONS, Pooling};
#[doc(hidden)]
pub use self::words::job_error::error_details;
#[doc(hidden)]
pub use self::words::stored_time;
#[doc(hidden)]
pub use self::words::tally::HISTORY_BOUNDS;
#[doc(hidden)]
pub use uniqueue_policy::Given;

#[cfg(feature = "derive")]
pub use uniqueue_derive::Job;
#[cfg(all(feature = "embedded", unix))]
pub use uniqueue_embedded as embedded;

/// Compiles and runs the snippets of docs/learn/unique.md.
#[cfg(doctest)]
#[doc = include_str!("../docs/learn/unique.md")]
struct UniqueGuide;

/// Compiles the snippets of docs/learn/groups.md.
#[cfg(doctest)]
#[doc = include_str!("../docs/learn/groups.md")]
struct GroupsGuide;

/// Compiles the snippets of docs/learn/workflows.md.
#[cfg(doctest)]
#[doc = include_str!("../docs/learn/workflows.md")]
struct WorkflowsGuide;

/// Compiles and runs the snippets of the derive macro's documentation.
#[cfg(doctest)]
#[doc = include_str!("../crates/derive/README.md")]
#[doc = include_str!("../crates/derive/src/job.md")]
struct DeriveDocs;

/// Compiles and runs the snippets of docs/learn/coming-from.md.
#[cfg(doctest)]
#[doc = include_str!("../docs/learn/coming-from.md")]
struct ComingFromGuide;

/// Compiles and runs the snippets of docs/learn/other-drivers.md that use no other driver.
#[cfg(doctest)]
#[doc = include_str!("../docs/learn/other-drivers.md")]
struct OtherDriversGuide;

/// Compiles and runs the snippets of docs/learn/workers.md.
#[cfg(doctest)]
#[doc = include_str!("../docs/learn/workers.md")]
struct WorkersGuide;

/// Compiles the snippets of docs/operate/scale.md.
#[cfg(doctest)]
#[doc = include_str!("../docs/operate/scale.md")]
struct ScaleGuide;
