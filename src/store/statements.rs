//! Every statement, rendered for one schema.

use std::sync::Arc;

use sqlx::AssertSqlSafe;
use sqlx::{SqlSafeStr, SqlStr};

use super::row;
use crate::words::ident::SchemaName;

/// The conditions of a filter on a job `j`, which replace the marker `/* matching */true`. They take parameters 1 to
/// 5: the states, queues, kinds and ids, and the whole filter as a document. A null or absent one sets no condition. Such
/// statements are planned for each call. A value of the document is a constant to the planner, an array of them is not.
const MATCHING: &str = include_str!("matching.sql");

/// The job of an insert, which replaces the marker `/* new_job */NULL`. It takes parameters 1 to 24.
const NEW_JOB: &str = include_str!("new_job.sql");

/// The jobs of an insert, which replace the marker `/* new_jobs */NULL`. They take parameters 1 to 25, come in the order of
/// their keys, and have their places in the batch in $25. An array of one element stands for all jobs, an empty one for nulls.
const NEW_JOBS: &str = include_str!("new_jobs.sql");

/// The condition that a change of jobs starts with, which replaces the marker `/* within */true`. It is evaluated once, before
/// the first row: $2 is the longest wait for a row that another transaction has locked.
const WITHIN: &str =
    "(SELECT set_config('lock_timeout', coalesce($2, current_setting('lock_timeout')), true)) IS NOT NULL";

/// The row of the log of a change of jobs, which replaces the marker `/* logged */(SELECT)`. It takes parameters 3 to 6.
const LOGGED: &str = include_str!("logged.sql");

macro_rules! statements {
    ($($(#[$condition:meta])* $name:ident),* $(,)?) => {
        /// Every statement, rendered for one schema.
        #[derive(Clone, Debug)]
        pub(crate) struct Statements {
            schema: SchemaName,
            $($(#[$condition])* pub(super) $name: SqlStr,)*
        }

        impl Statements {
            /// Renders every statement for a schema.
            pub(crate) fn new(schema: SchemaName) -> Self {
                let qualifier = format!("{}.", schema.quoted());
                let columns = row::columns_of_j();
                // Safe to splice: a schema name is checked against an alphabet without quotes.
                let render = |text: &str| {
                    let text = text.replace("/* matching */true", MATCHING);
                    let text = text.replace("/* new_job */NULL", NEW_JOB).replace("/* new_jobs */NULL", NEW_JOBS);
                    let text = text.replace("/* within */true", WITHIN).replace("/* logged */(SELECT)", LOGGED);
                    let text = text.replace("/* columns */j.*", &columns).replace("/* schema */", &qualifier);
                    AssertSqlSafe(Arc::<str>::from(text)).into_sql_str()
                };
                Self {
                    $($(#[$condition])* $name: render(include_str!(concat!("sql/", stringify!($name), ".sql"))),)*
                    schema,
                }
            }

            /// Every statement with its name, for the test that prepares them all.
            pub(crate) fn all(&self) -> Vec<(&'static str, SqlStr)> {
                Vec::from([$($(#[$condition])* (stringify!($name), self.$name.clone()),)*])
            }
        }
    };
}

statements! {
    begin_run,
    bloated_indexes,
    cancel_jobs,
    claiming_jobs,
    complete,
    count_matching,
    database_time,
    define_periodic,
    delete,
    delete_jobs,
    discard_jobs,
    deletes_completed,
    due_periodic,
    #[cfg(feature = "testing")]
    end_connections,
    explain_unique,
    extend_lease,
    failed_indexes,
    fetch,
    final_jobs,
    finish,
    flag_periodic,
    give_back,
    #[cfg(feature = "testing")]
    held_back,
    hold_back,
    holder,
    insert_batch,
    insert_graph,
    insert_one,
    insert_plain,
    insert_plain_one,
    insert_unique_one,
    job_by_id,
    large_tables,
    last_id,
    #[cfg(feature = "testing")]
    left_behind,
    limit_statements,
    list_newest,
    list_oldest,
    live_runners,
    locked_jobs,
    log_change,
    matching_ids,
    #[cfg(feature = "testing")]
    may_create_databases,
    name_place,
    #[cfg(feature = "testing")]
    next_job,
    not_completed,
    note_deploy,
    parents_of,
    #[cfg(feature = "testing")]
    periodic_slots,
    place_identity,
    queue_settings,
    register_kinds,
    registered_kind,
    register_runner,
    release_claim,
    release_jobs,
    release_service,
    remove_queue,
    remove_runner,
    reschedule_jobs,
    retry_graph,
    retry_jobs,
    #[cfg(feature = "testing")]
    run_passed_slots,
    run_periodic,
    run_service,
    schema_version,
    session,
    set_aside,
    set_priority,
    set_runner_idle,
    #[cfg(feature = "testing")]
    start_job,
    still_held,
    store_progress,
    take_service,
    #[cfg(feature = "testing")]
    time_shifts,
    #[cfg(feature = "testing")]
    window_shift,
    write_history,
}

impl Statements {
    /// The schema that the statements are rendered for.
    pub(crate) const fn schema(&self) -> &SchemaName {
        &self.schema
    }
}
