//! SQL that remedies what `diagnose` finds. It is meant for psql; this library does not send it.

use uuid::Uuid;

use crate::ident::{QueueName, SchemaName};

/// The five transactions that have been open for longest. Among others, they keep the queue of notifications full.
pub(crate) const OLDEST_TRANSACTIONS: &str = "\
SELECT pid, usename, application_name, state, now() - xact_start AS open_for, left(query, 80) AS query
FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 5;";

/// Ends a session, which rolls its transaction back.
pub(crate) fn sql_to_end_session(pid: i32) -> String {
    format!("SELECT pg_terminate_backend({pid});")
}

pub(crate) fn sql_to_roll_back_prepared(gid: &str) -> String {
    format!("ROLLBACK PREPARED {};", literal(gid))
}

pub(crate) fn sql_to_drop_slot(name: &str) -> String {
    format!("SELECT pg_drop_replication_slot({});", literal(name))
}

pub(crate) fn sql_to_vacuum(schema: &SchemaName, table: &str) -> String {
    format!("VACUUM (ANALYZE) {};", qualified(schema, table))
}

/// Switches autovacuum on for a table, and shows the server's setting.
pub(crate) fn sql_to_let_autovacuum(schema: &SchemaName, table: &str) -> String {
    format!(
        "ALTER TABLE {} RESET (autovacuum_enabled);\nSHOW autovacuum;\nSHOW track_counts;",
        qualified(schema, table)
    )
}

pub(crate) fn sql_to_rebuild_index(schema: &SchemaName, index: &str) -> String {
    format!("REINDEX INDEX CONCURRENTLY {};", qualified(schema, index))
}

pub(crate) fn sql_to_drop_index(schema: &SchemaName, index: &str) -> String {
    format!("DROP INDEX CONCURRENTLY {};", qualified(schema, index))
}

pub(crate) fn sql_to_resume_queue(schema: &SchemaName, queue: &QueueName) -> String {
    format!("SELECT * FROM {}.resume_queue({});", schema.quoted(), literal(queue.as_str()))
}

pub(crate) fn sql_to_limit_queue(schema: &SchemaName, queue: &QueueName, limit: u32) -> String {
    format!("SELECT * FROM {}.limit_queue({}, {limit});", schema.quoted(), literal(queue.as_str()))
}

pub(crate) fn sql_to_limit_waiting(schema: &SchemaName, queue: &str, limit: u64) -> String {
    format!("SELECT * FROM {}.limit_waiting({}, {limit});", schema.quoted(), literal(queue))
}

/// Removes a limit of waiting jobs and sets it again, which creates the trigger that enforces it.
pub(crate) fn sql_to_enforce_max_waiting(schema: &SchemaName, queue: &str, limit: u64) -> String {
    format!(
        "DROP TRIGGER IF EXISTS job_max_waiting ON {schema}.job;\nSELECT * FROM {schema}.limit_waiting({queue}, NULL);\n{again}",
        schema = schema.quoted(),
        queue = literal(queue),
        again = sql_to_limit_waiting(schema, queue, limit),
    )
}

pub(crate) fn sql_to_cancel(schema: &SchemaName, job: Uuid) -> String {
    format!("SELECT * FROM {}.cancel_jobs(ARRAY['{job}'::uuid]);", schema.quoted())
}

pub(crate) fn sql_to_delete(schema: &SchemaName, job: Uuid) -> String {
    format!("SELECT * FROM {}.delete_jobs(ARRAY['{job}'::uuid]);", schema.quoted())
}

pub(crate) fn sql_to_release_claim(schema: &SchemaName, key: &str) -> String {
    format!("SELECT {}.release_claim({});", schema.quoted(), literal(key))
}

/// Switches a maintenance service on.
pub(crate) fn sql_to_serve(schema: &SchemaName, service: &str) -> String {
    format!("UPDATE {}.maintenance SET leased_until = now() WHERE service = {};", schema.quoted(), literal(service))
}

/// Shows a row by its name: `maintenance` by `service`, `periodic` by `name`.
pub(crate) fn sql_to_show(schema: &SchemaName, table: &str, column: &str, value: &str) -> String {
    format!("SELECT * FROM {}.{table} WHERE {column} = {};", schema.quoted(), literal(value))
}

/// Removes a periodic job.
pub(crate) fn sql_to_remove_periodic(schema: &SchemaName, name: &str) -> String {
    format!("DELETE FROM {}.periodic WHERE name = {};", schema.quoted(), literal(name))
}

/// Deletes a batch of a queue's final jobs that are past their retention.
pub(crate) fn sql_to_prune(schema: &SchemaName, queue: &str, state: &str, keep: &str) -> String {
    format!(
        "DELETE FROM {schema}.job WHERE id IN (\n    SELECT id FROM {schema}.job\n    WHERE queue = {queue} AND state = \
         {state} AND finalized_at < now() - {keep}::interval\n        AND (unique_until IS NULL OR unique_until < now() \
         OR NOT claims)\n    ORDER BY id LIMIT 10000\n);",
        schema = schema.quoted(),
        queue = literal(queue),
        state = literal(state),
        keep = literal(keep),
    )
}

fn qualified(schema: &SchemaName, name: &str) -> String {
    format!("{}.\"{}\"", schema.quoted(), name.replace('"', "\"\""))
}

/// A text as an SQL literal, whatever `standard_conforming_strings` says.
fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_their_quotes() {
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal("a\\'"), "E'a\\\\'''");
        let schema = SchemaName::new("my-app").unwrap();
        assert_eq!(sql_to_vacuum(&schema, "a\"b"), "VACUUM (ANALYZE) \"my-app\".\"a\"\"b\";");
    }
}
