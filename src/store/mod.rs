//! All SQL of the library.
//!
//! Every statement is a file in `sql/`. The marker `/* schema */` before a name becomes the queue's schema. The files
//! stay valid SQL that way, and need no `search_path`. The marker `/* columns */j.*` becomes the columns of the job `j`
//! that [`row::job_row`] reads. The parts that several statements share stand beside them: the conditions of a filter in
//! `matching.sql`, and the jobs of an insert, of which each becomes a `new_job`, in `new_job.sql` and `new_jobs.sql`.
//! The functions here take a connection and plain values, and return plain values.

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

pub(crate) use self::change::{Changed, Changes, LogEntry, Told, Verb, change, log_change, release_claim};
pub(crate) use self::explain::{Explained, explain_unique};
pub(crate) use self::history::write_history;
pub(crate) use self::insert::{Answer, Edge, EdgeParent, InsertBatch, NewRow, insert};
pub(crate) use self::kind::{register_kinds, registered_kind};
#[cfg(feature = "periodic")]
pub(crate) use self::periodic::{
    Definition, DuePeriodic, OfKind, SlotRun, define_periodic, due_periodic, flag_periodic, run_periodic,
};
#[cfg(feature = "testing")]
pub(crate) use self::periodic::{PeriodicSlots, periodic_slots, run_passed_slots};
pub(crate) use self::query::{FOR_EVER, interval, milliseconds};
pub(crate) use self::queue::{QueueCall, change_queue, queue_settings, remove_queue};
#[cfg(feature = "migrate")]
pub(crate) use self::schema::migrate::{LOCK_TIMEOUT_OF_MIGRATION, begin_migration, migration_sql, waiting_migrations};
pub use self::schema::migrations::{LATEST_VERSION, MIGRATIONS};
pub(crate) use self::schema::migrations::{SchemaVersion, schema_version};
pub(crate) use self::schema::place::{PlaceIdentity, name_place, place_identity};
pub use self::schema::pooling::Pooling;
pub(crate) use self::schema::pooling::pooling;
pub(crate) use self::schema::reindex::{
    BloatedIndex, analyze, begin_run, bloated_indexes, bound_rebuild, drop_index, failed_indexes, large_tables,
    rebuild_index,
};
#[cfg(feature = "testing")]
pub(crate) use self::schema::scratch::{
    create_database, create_schema, drop_database, drop_schema, end_connections, left_behind, may_create_databases,
    shift_times,
};
pub(crate) use self::select::{count, last_id, list, matching_ids};
pub(crate) use self::single_reads::{database_time, deletes_completed, final_jobs, holder, job_by_id, parents_of};
pub(crate) use self::statements::Statements;
pub(crate) use self::transaction::{
    begin_limited, begin_look_up, begin_read_committed, begin_savepoint, commit, end_savepoint, has_open_transaction,
    limit_statements, restore_statement_limit, settle, settle_within,
};
pub(crate) use self::working::fetch::{Demand, GroupVisit, Position, QueueDemand, SuspectLimit, fetch, give_back};
pub(crate) use self::working::fetch_answer::{FetchPlan, Fetched, Unreadable, Visited};
pub(crate) use self::working::finish::{
    EndStatement, FinishedStates, Hold, RunResult, StoredError, Verdict, finish, locked, not_completed, still_held,
};
pub(crate) use self::working::progress::{Report, store_progress};
pub(crate) use self::working::runners::{
    CompletedKept, RunnerRow, Worked, extend_lease, live_runners, note_deploy, register_runner, remove_runner,
    set_runner_idle,
};
#[cfg(feature = "testing")]
pub(crate) use self::working::service::release_children;
pub(crate) use self::working::service::{
    ChangedJob, ServiceRun, begin_bounded, bound, end_after, plan_by_index, release_service, run_service, take_service,
};
pub(crate) use self::working::set_aside::{FailedFetch, is_of_values, set_aside};
#[cfg(feature = "testing")]
pub(crate) use self::working::testing::{held_back, next_job, start_job};

use self::query::{Query, lock_timeout, query};
use crate::words::ident::SchemaName;

/// The channel that names queues with new jobs. All schemas of a database share its channels, so the name has the
/// schema.
pub(crate) fn job_channel(schema: &SchemaName) -> String {
    format!("{schema}.job")
}

/// The channel that names runners whose jobs were taken away.
pub(crate) fn control_channel(schema: &SchemaName) -> String {
    format!("{schema}.control")
}
