//! Every statement, rendered for one schema.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

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

/// A change of jobs by an operator. The call of the verb replaces its marker.
const CHANGE: &str = include_str!("sql/operator/change.sql");

macro_rules! statements {
    (changes { $($change:ident: $call:literal,)* } $($folder:ident { $($(#[$condition:meta])* $name:ident),* $(,)? })*) => {
        /// Every statement, rendered for one schema.
        #[derive(Clone, Debug)]
        pub(crate) struct Statements {
            schema: SchemaName,
            $($($(#[$condition])* pub(super) $name: SqlStr,)*)*
            $(pub(super) $change: SqlStr,)*
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
                    $($($(#[$condition])* $name: render(include_str!(concat!(
                        "sql/", stringify!($folder), "/", stringify!($name), ".sql"
                    ))),)*)*
                    $($change: render(&CHANGE.replace("/* change */", $call)),)*
                    schema,
                }
            }

            /// Every statement with its name, for the tests of the statements.
            pub(crate) fn all(&self) -> Vec<(&'static str, SqlStr)> {
                Vec::from([
                    $($($(#[$condition])* (stringify!($name), self.$name.clone()),)*)*
                    $((stringify!($change), self.$change.clone()),)*
                ])
            }
        }
    };
}

// By the folders of `sql`.
statements! {
    changes {
        cancel_jobs: "/* schema */cancel_jobs($1, $7)",
        delete_jobs: "/* schema */delete_jobs($1, $7)",
        discard_jobs: "/* schema */discard_jobs($1, $7)",
        release_jobs: "/* schema */release_jobs($1, $7)",
        reschedule_jobs: "/* schema */reschedule_jobs($1, $8, $7)",
        set_priority: "/* schema */set_priority($1, $8::smallint, $7)",
        retry_jobs: "/* schema */retry_jobs($1, $7, $8)",
        retry_graph: "(SELECT r.* FROM unnest($1::uuid[]) AS g (id) CROSS JOIN LATERAL /* schema */retry_graph(g.id) AS r)",
    }
    insert {
        claiming_jobs,
        explain_unique,
        holder,
        insert_batch,
        insert_graph,
        insert_one,
        insert_plain,
        insert_plain_one,
        insert_unique_one,
        register_kinds,
        registered_kind,
        release_claim,
    }
    work {
        complete,
        delete,
        deletes_completed,
        fetch,
        final_jobs,
        finish,
        give_back,
        hold_back,
        not_completed,
        set_aside,
        still_held,
        store_progress,
    }
    runner {
        begin_run,
        bloated_indexes,
        extend_lease,
        failed_indexes,
        large_tables,
        live_runners,
        note_deploy,
        register_runner,
        release_service,
        remove_runner,
        run_service,
        set_runner_idle,
        take_service,
        write_history,
    }
    operator {
        count_matching,
        job_by_id,
        last_id,
        list_newest,
        list_oldest,
        locked_jobs,
        log_change,
        matching_ids,
        parents_of,
        queue_settings,
        remove_queue,
    }
    periodic {
        define_periodic,
        due_periodic,
        flag_periodic,
        run_periodic,
    }
    session {
        database_time,
        limit_statements,
        name_place,
        place_identity,
        schema_version,
        session,
    }
    testing {
        #[cfg(feature = "testing")]
        end_connections,
        #[cfg(feature = "testing")]
        held_back,
        #[cfg(feature = "testing")]
        left_behind,
        #[cfg(feature = "testing")]
        may_create_databases,
        #[cfg(feature = "testing")]
        next_job,
        #[cfg(feature = "testing")]
        periodic_slots,
        #[cfg(feature = "testing")]
        run_passed_slots,
        #[cfg(feature = "testing")]
        start_job,
        #[cfg(feature = "testing")]
        time_shifts,
        #[cfg(feature = "testing")]
        window_shift,
    }
}

impl Statements {
    /// The schema that the statements are rendered for.
    pub(crate) const fn schema(&self) -> &SchemaName {
        &self.schema
    }
}
