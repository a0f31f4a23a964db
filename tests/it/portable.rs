//! The SQL forms that a distributed schema of Citus refuses, and where the queue uses them.
//!
//! Each use stands in [`EXCEPTIONS`] with its reason. A use that is not listed fails the test, and so does an exception
//! that no longer applies. The forms were tried on Citus 13.2 and 14.0 with schema-based sharding.

use std::collections::{BTreeSet, HashSet};

use crate::support::sql::{Part, calls, commands, parts, set_clauses};

/// A refused form.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Form {
    /// The physical place of a row.
    Ctid,
    /// A volatile function in `UPDATE … SET` or `DO UPDATE SET`.
    VolatileSet,
    /// More than one command in a prepared statement.
    SeveralCommands,
    /// An unlogged table.
    Unlogged,
    /// `plan_cache_mode = force_generic_plan`.
    GenericPlan,
    /// A function in SQL with parameters that reads or writes a table.
    SqlFunction,
    /// A function with side effects, called in a command that also reads or writes a table.
    SideEffect,
}

use Form::{Ctid, GenericPlan, SeveralCommands, SideEffect, SqlFunction, Unlogged, VolatileSet};

const FORMS: [Form; 7] = [Ctid, VolatileSet, SeveralCommands, Unlogged, GenericPlan, SqlFunction, SideEffect];

/// The form, the statement files or database objects that use it, and why.
const EXCEPTIONS: &[(Form, &[&str], &str)] = &[
    (Ctid, &["fold_duplicates"], "duplicate_tally has no key: an index would cost every audited insert"),
    (Ctid, &["waiting_insert"], "pg_locks names a row only by its place"),
    (
        VolatileSet,
        &[
            "cancel_jobs",
            "release_jobs",
            "replace_holder",
            "retry_jobs",
            "retry_with_claims",
            "take_claims",
            "try_jobs",
        ],
        "in a long transaction of the caller a change is stamped with the time of its own statement or step",
    ),
    (
        VolatileSet,
        &["backfill_settle.sql", "complete.sql", "discard_unreadable.sql", "finish.sql", "rescue.sql", "start_job.sql"],
        "the statement may have waited for locks: the time is that of the change",
    ),
    (
        VolatileSet,
        &["begin_run.sql", "extend_lease.sql", "release_service.sql", "take_service.sql"],
        "a lease runs from the moment its row is locked, not from the start of the wait",
    ),
    (VolatileSet, &["move_group_times", "rate_queue"], "the statement may have waited for the queue's row"),
    (VolatileSet, &["pause_periodic.sql", "resume_periodic.sql"], "the same clock as due_periodic.sql reads"),
    (Unlogged, &["duplicate_tally"], "an audited duplicate must not wait for WAL"),
    (
        GenericPlan,
        &[
            "explain_insert",
            "fetch_jobs",
            "free_places",
            "insert_batch",
            "insert_one",
            "insert_unique",
            "jobs_of_groups",
            "note_duplicates",
            "refuse_beyond_max_waiting",
            "retry_with_claims",
            "spend_tokens",
            "take_claims",
            "try_jobs",
        ],
        "a custom plan for each call takes longer than the call",
    ),
    (
        SqlFunction,
        &[
            "audit_duplicates",
            "hold_group",
            "hold_queue",
            "limit_groups",
            "limit_queue",
            "limit_waiting",
            "pause_queue",
            "rate_groups",
            "rate_queue",
            "release_claim",
            "resume_group",
            "resume_queue",
            "retain_queue",
            "share_queue",
        ],
        "one statement of an operator, checked against the tables when it is created",
    ),
    (
        SqlFunction,
        &["cancel_jobs", "delete_jobs", "release_jobs", "reschedule_jobs", "retry_jobs", "set_priority"],
        "one statement of an operator, with one snapshot for the choice of jobs and their change",
    ),
    (
        SqlFunction,
        &["failing_kinds", "groups", "queues", "retentions", "stuck_jobs"],
        "the body of a view, with a limit",
    ),
    (
        SqlFunction,
        &["available_jobs", "group_ring", "next_group"],
        "a part of the statement that calls it, which stops as soon as it has enough",
    ),
    (
        SideEffect,
        &[
            "cancel_jobs",
            "limit_groups",
            "limit_queue",
            "rate_groups",
            "rate_queue",
            "release_jobs",
            "reschedule_jobs",
            "resume_group",
            "resume_queue",
            "retry_jobs",
        ],
        "an SQL function has no step after its statement",
    ),
    (
        SideEffect,
        &[
            "backfill_groups.sql",
            "backfill_keys.sql",
            "complete.sql",
            "delete.sql",
            "discard_unreadable.sql",
            "finish.sql",
            "give_back.sql",
            "promote.sql",
            "rescue.sql",
        ],
        "one round trip for the change, the claims, the limits and the wake-ups",
    ),
    (
        SideEffect,
        &["insert_plain.sql", "insert_plain_one.sql", "insert_unique_one.sql"],
        "one round trip for the insert and the wake-ups",
    ),
    (SideEffect, &["next_jobs.sql"], "asked only after a fetch failed, for the jobs that the fetch would have taken"),
    (SideEffect, &["insert_unique"], "only the queues of the rows that were inserted are woken"),
    (
        SideEffect,
        &["retain_queue.sql", "run_periodic.sql", "run_periodic_now.sql"],
        "the arguments or the answer are columns of the row that is read in the same round trip",
    ),
    (SideEffect, &["tell_runners", "wake_runners"], "a notification for each row of runner that wants one"),
];

/// Volatile functions of PostgreSQL without side effects.
const VOLATILE: [&str; 4] = ["clock_timestamp", "gen_random_uuid", "nextval", "random"];

/// The names that the schema defines.
#[derive(Default)]
struct Names {
    relations: HashSet<String>,
    with_side_effects: HashSet<String>,
}

#[test]
fn forms_that_a_distributed_schema_refuses_are_used_only_where_a_reason_is_given() {
    let parts = parts();
    let names = Names::of(&parts);
    let used: BTreeSet<(Form, &str)> = parts
        .iter()
        .flat_map(|part| FORMS.iter().filter(|form| form.is_in(part, &names)).map(|form| (*form, part.place.as_str())))
        .collect();
    let excepted: BTreeSet<(Form, &str)> =
        EXCEPTIONS.iter().flat_map(|(form, places, _)| places.iter().map(|place| (*form, *place))).collect();
    let new: Vec<_> = used.difference(&excepted).collect();
    assert!(new.is_empty(), "choose another form, or give a reason in EXCEPTIONS: {new:#?}");
    let gone: Vec<_> = excepted.difference(&used).collect();
    assert!(gone.is_empty(), "no longer used, take out of EXCEPTIONS: {gone:#?}");
}

impl Form {
    fn is_in(self, part: &Part, names: &Names) -> bool {
        let tokens = &part.tokens;
        match self {
            Ctid => tokens.iter().any(|token| token == "ctid" || token.ends_with(".ctid")),
            VolatileSet => set_clauses(tokens).iter().any(|clause| {
                calls(clause).any(|name| VOLATILE.contains(&name) || names.with_side_effects.contains(name))
            }),
            SeveralCommands => part.is_statement && tokens.iter().rev().skip(1).any(|token| token == ";"),
            Unlogged => tokens.iter().any(|token| token == "UNLOGGED"),
            GenericPlan => tokens.iter().any(|token| token == "force_generic_plan"),
            SqlFunction => {
                let is_sql = tokens.windows(2).any(|pair| pair == ["LANGUAGE", "sql"]);
                is_sql && tokens.get(4).is_some_and(|token| token != ")") && names.are_relations_in(tokens)
            }
            SideEffect => commands(tokens).iter().any(|command| {
                names.are_relations_in(command) && calls(command).any(|name| names.with_side_effects.contains(name))
            }),
        }
    }
}

impl Names {
    fn of(parts: &[Part]) -> Self {
        let mut names = Self { with_side_effects: ["pg_notify".into(), "set_config".into()].into(), ..Self::default() };
        for part in parts.iter().filter(|part| !part.is_statement) {
            let has = |word: &str| part.tokens.iter().any(|token| token == word);
            match part.kind() {
                "TABLE" | "VIEW" => _ = names.relations.insert(part.place.clone()),
                // It makes an id and changes nothing.
                "FUNCTION" if part.place == "new_job_id" || has("IMMUTABLE") || has("STABLE") => {}
                "FUNCTION" => _ = names.with_side_effects.insert(part.place.clone()),
                _ => {}
            }
        }
        names
    }

    fn are_relations_in(&self, tokens: &[String]) -> bool {
        tokens.windows(2).any(|pair| {
            ["FROM", "JOIN", "UPDATE", "INTO"].contains(&pair[0].as_str()) && self.relations.contains(&pair[1])
        })
    }
}
