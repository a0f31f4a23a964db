//! All SQL of the library.
//!
//! Every statement is a file in `sql/`. The marker `/* schema */` before a name becomes the queue's schema. The files
//! stay valid SQL that way, and need no `search_path`. The marker `/* columns */j.*` becomes the columns of the job `j`
//! that [`row::job_row`] reads. The parts that several statements share stand beside them: the conditions of a filter in
//! `matching.sql`, and the jobs of an insert, of which each becomes a `new_job`, in `new_job.sql` and `new_jobs.sql`.
//! A [`Store`] takes plain values, and returns plain values.

mod change;
mod explain;
mod history;
mod insert;
mod kind;
#[cfg(feature = "periodic")]
mod periodic;
mod query;
mod queue;
mod row;
mod schema;
mod select;
mod single_reads;
mod statements;
mod transaction;
mod working;

pub(crate) use self::change::{Changed, Changes, LogEntry, Told, Verb};
pub(crate) use self::explain::Explained;
pub(crate) use self::insert::{Answer, Edge, EdgeParent, InsertBatch, NewRow};
#[cfg(feature = "periodic")]
pub(crate) use self::periodic::{Definition, DuePeriodic, OfKind, SlotRun};
pub(crate) use self::query::{FOR_EVER, interval, milliseconds};
pub(crate) use self::queue::QueueCall;
#[cfg(feature = "migrate")]
pub(crate) use self::schema::migrate::LOCK_TIMEOUT_OF_MIGRATION;
pub(crate) use self::schema::migrations::SchemaVersion;
pub use self::schema::migrations::{LATEST_VERSION, MIGRATIONS};
pub(crate) use self::schema::place::PlaceIdentity;
pub use self::schema::pooling::Pooling;
pub(crate) use self::schema::pooling::pooling;
pub(crate) use self::schema::reindex::{BloatedIndex, bound_rebuild};
#[cfg(feature = "testing")]
pub(crate) use self::schema::scratch::{create_database, create_schema, drop_database, drop_schema};
pub(crate) use self::statements::Statements;
pub(crate) use self::transaction::{
    begin_limited, begin_look_up, begin_read_committed, begin_savepoint, commit, end_savepoint, has_open_transaction,
    settle, settle_within,
};
pub(crate) use self::working::fetch::{Demand, GroupVisit, Position, QueueDemand, SuspectLimit};
pub(crate) use self::working::fetch_answer::{FetchPlan, Fetched, Unreadable, Visit};
pub(crate) use self::working::finish::{EndStatement, FinishedStates, Hold, RunResult, StoredError, Verdict};
pub(crate) use self::working::progress::Report;
pub(crate) use self::working::runners::{CompletedKept, RunnerRow, Worked};
pub(crate) use self::working::service::{ChangedJob, ServiceRun, begin_bounded, bound, end_after, plan_by_index};
pub(crate) use self::working::set_aside::{FailedFetch, is_of_values};

use sqlx::PgConnection;

use self::query::{Query, lock_timeout, query};
use crate::words::ident::SchemaName;

/// A connection and the statements of a schema. Each method sends one of them, or a few.
pub(crate) struct Store<'c> {
    connection: &'c mut PgConnection,
    statements: &'c Statements,
}

impl Statements {
    /// A store that sends these statements over the connection.
    pub(crate) const fn over<'c>(&'c self, connection: &'c mut PgConnection) -> Store<'c> {
        Store { connection, statements: self }
    }
}

/// The channel that names queues with new jobs. All schemas of a database share its channels, so the name has the
/// schema.
pub(crate) fn job_channel(schema: &SchemaName) -> String {
    format!("{schema}.job")
}

/// The channel that names runners whose jobs were taken away.
pub(crate) fn control_channel(schema: &SchemaName) -> String {
    format!("{schema}.control")
}
