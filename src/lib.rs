#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
//!
//! The guides and the licences that this page links to are files of the repository, in `docs` and beside the README.

mod after;
mod as_parent;
mod attempt_error;
mod backfill;
mod bisection;
mod client;
mod count;
#[cfg(all(feature = "embedded", unix))]
pub mod embedded;
mod error;
mod event;
mod filter;
mod group;
mod health;
mod history;
mod ident;
mod job;
mod job_error;
mod job_json;
pub mod json;
mod kind;
mod maintenance;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "metrics/off.rs"]
mod metrics;
mod notify;
mod opts;
mod outcome;
mod overview;
pub mod period;
#[cfg(feature = "periodic")]
mod periodic;
mod place_by;
mod places;
mod queue;
mod rate;
mod remote;
mod retention;
mod retry;
mod runner;
#[cfg(feature = "periodic")]
mod schedule;
mod state;
mod store;
#[doc(hidden)]
pub mod stored_time;
#[cfg(feature = "testing")]
pub mod testing;
mod trace;
mod unique;
mod wait_result;
mod wake_ups;
mod why;
mod worker;

/// Jobs that run after others.
pub use self::after::{AfterCondition, JobChild, JobParent, Parents};
/// Jobs.
pub use self::attempt_error::AttemptError;
/// Keys for jobs that are there already.
pub use self::backfill::{BackfillProgress, BackfillReport, Collision, OnCollision, UnfitJob};
/// Bringing the schema up to date.
#[cfg(feature = "migrate")]
pub use self::client::Migration;
#[cfg(feature = "periodic")]
/// Periodic jobs.
pub use self::client::Periodic;
/// Inserting and looking.
pub use self::client::{
    Backfill, Call, Change, Claims, Client, ClientBuilder, Events, Explanation, FetchJobs, Groups, HeldGroups, Insert,
    InsertAndWait, InsertMany, InsertMiddleware, KindCache, Kinds, NextInsert, Queue, QueueCache, Queues, Wait,
};
/// Errors.
pub use self::error::{Error, Rejection, Result};
/// Events.
pub use self::event::{Event, Happened};
/// Health.
pub use self::health::{Diagnose, Diagnosis, Finding, Limit, Remedy, Severity, SkippedCheck, Thresholds};
/// History.
pub use self::history::{Histogram, HistoryCounts};
#[cfg(feature = "periodic")]
pub use self::ident::PeriodicName;
/// Names.
pub use self::ident::{JobId, Kind, MAX_NAME_BYTES, MAX_SCHEMA_BYTES, PlaceName, QueueName, SchemaName};
pub use self::job::{Inserted, Job, JobRow, NewJob};
/// Working.
pub use self::job_error::{JobError, Permanent};
/// Registered kinds.
pub use self::kind::KindRow;
pub use self::outcome::{BoxError, IntoResult, Outcome};
/// Groups.
pub use self::overview::{GroupInfo, HeldGroup};
/// Lengths of time as text.
pub use self::period::format_duration;
#[cfg(feature = "periodic")]
pub use self::periodic::{PeriodicChange, PeriodicJob, PeriodicRow, PeriodicRun, PeriodicSource};
/// Several databases.
pub use self::place_by::PlaceBy;
pub use self::places::{
    PlaceAddress, PlaceAnswer, PlaceInsert, PlaceMap, PlaceState, Placed, Places, PlacesBuilder, PlacesHandle,
    PlacesRunner,
};
/// Queues.
pub use self::queue::{QueueChanges, QueueInfo, QueueSettings};
pub use self::rate::Rate;
/// Working without a runner.
pub use self::remote::{FetchedJob, FinishedRun, HeldRun, JobResult, JobRun, Maintained};
pub use self::retention::{Keep, Retention};
pub use self::retry::RetryPolicy;
pub use self::runner::{Maintainer, MaintainerHandle, Runner, RunnerHandle, RunnerHealth, shutdown_signal};
#[cfg(feature = "periodic")]
pub use self::schedule::CatchUp;
pub use self::store::LATEST_VERSION as SCHEMA_VERSION;
/// Uniqueness.
pub use self::unique::{
    Claim, Duplicate, InsertOutcome, KeyHolder, MAX_KEY_BYTES, OnConflict, OnReentry, RefusedRetry, StateSet, Subject,
    UniqueKey, UniquePolicy, UniqueScope, UnknownWord, Until, Update, UpdateArgs,
};
/// Results that were waited for.
pub use self::wait_result::Waited;
pub use self::wake_ups::{WakeUp, WakeUps};
/// Why a job waits.
pub use self::why::{FirstJob, Obstacle, ObstacleCode};
pub use self::worker::{
    AnyJob, BatchResults, BatchWorker, Batching, IntoResults, Middleware, Needs, Next, Progress, RunningJob,
    StopReason, Worker, WorkerOptions,
};
/// Which jobs, and how many.
pub use self::{
    count::JobCount,
    filter::{JobFilter, JobSelection},
};
/// Options and states.
pub use self::{opts::InsertOptions, state::JobState};

#[cfg(feature = "derive")]
pub use uniqueue_derive::Job;

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
