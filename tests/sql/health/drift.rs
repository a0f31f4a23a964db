//! The schema against what the migrations make.

use support::prelude::*;
use uniqueue_admin::Severity::{Critical, Notice, Warning};
use uniqueue_admin::{Severity, Thresholds};

use super::{diagnose, find, gone, paste};

/// The change; the code of the finding; its subject; a part of its text.
const DRIFTS: &[(&str, &str, Severity, &str, &str)] = &[
    ("DROP INDEX {schema}.job_unique_key", "index_missing", Critical, "index job_unique_key", "can claim one key"),
    ("DROP INDEX {schema}.job_waiting", "index_missing", Critical, "index job_waiting", "read the whole table"),
    (
        "DROP INDEX {schema}.job_running; CREATE INDEX job_running ON {schema}.job (worker) WHERE state = 'running'",
        "object_changed",
        Critical,
        "index job_running",
        "(queue, worker)",
    ),
    ("CREATE INDEX mine ON {schema}.job (kind)", "object_extra", Notice, "index mine", "maintains it"),
    ("ALTER TABLE {schema}.job ADD COLUMN mine text", "object_extra", Notice, "column job.mine", "later migration"),
    (
        "ALTER TABLE {schema}.periodic DROP COLUMN created_at",
        "object_missing",
        Critical,
        "column periodic.created_at",
        "",
    ),
    (
        "ALTER TABLE {schema}.job ALTER COLUMN priority SET DEFAULT 5",
        "object_changed",
        Critical,
        "column job.priority",
        "smallint NOT NULL DEFAULT 5, and should be smallint NOT NULL DEFAULT 0",
    ),
    (
        "ALTER TABLE {schema}.job DROP CONSTRAINT job_state_fits",
        "object_missing",
        Warning,
        "constraint job_state_fits of job",
        "missing",
    ),
    (
        "ALTER TABLE {schema}.queue DROP CONSTRAINT queue_max_running_range;
         ALTER TABLE {schema}.queue ADD CONSTRAINT queue_max_running_range CHECK (max_running >= 1) NOT VALID",
        "object_changed",
        Warning,
        "constraint queue_max_running_range of queue",
        "NOT VALID",
    ),
    (
        "ALTER TABLE {schema}.job ADD CONSTRAINT mine CHECK (kind <> 'b')",
        "object_extra",
        Warning,
        "constraint mine of job",
        "may refuse",
    ),
    ("ALTER TABLE {schema}.job SET UNLOGGED", "object_changed", Critical, "table job", "after a crash"),
    ("ALTER TABLE {schema}.job ENABLE ROW LEVEL SECURITY", "object_changed", Critical, "table job", "row security"),
    ("DROP TABLE {schema}.change_log", "object_missing", Critical, "table change_log", "missing"),
    ("DROP FUNCTION {schema}.release_claim", "object_missing", Critical, "function release_claim", "missing"),
    (
        "CREATE OR REPLACE FUNCTION {schema}._wake_runners(queues text[]) RETURNS integer LANGUAGE sql AS 'SELECT 0'",
        "object_changed",
        Critical,
        "function _wake_runners",
        "differs from the migrations",
    ),
    (
        "CREATE FUNCTION {schema}.release_claim(unique_key varchar) RETURNS uuid LANGUAGE sql AS 'SELECT NULL::uuid'",
        "object_extra",
        Warning,
        "function release_claim",
        "ambiguous",
    ),
    (
        "CREATE FUNCTION {schema}.mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
         CREATE TRIGGER mine BEFORE INSERT ON {schema}.job FOR EACH ROW EXECUTE FUNCTION {schema}.mine()",
        "object_extra",
        Warning,
        "trigger mine of job",
        "every insert",
    ),
    (
        "CREATE RULE mine AS ON DELETE TO {schema}.job DO INSTEAD NOTHING",
        "object_extra",
        Warning,
        "rule mine of job",
        "",
    ),
    ("DROP VIEW {schema}.running_job", "object_missing", Critical, "view running_job", "missing"),
    (
        "CREATE OR REPLACE VIEW {schema}.stuck_job AS
         SELECT s.id, s.kind, s.queue, s.state, s.attempt, s.runner, s.since, s.stuck_for, s.code, s.reason, s.remedy
         FROM {schema}.stuck_jobs() AS s LIMIT 1",
        "object_changed",
        Warning,
        "view stuck_job",
        "differs from the migrations",
    ),
    (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{schema}.job_waiting'::regclass",
        "index_invalid",
        Critical,
        "index job_waiting of job",
        "no query uses it",
    ),
    (
        "CREATE INDEX job_fetch_ccnew ON {schema}.job (queue);
         UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{schema}.job_fetch_ccnew'::regclass",
        "index_invalid",
        Warning,
        "index job_fetch_ccnew of job",
        "every write maintains",
    ),
];

#[support::test]
async fn every_drift_is_named_and_its_remedy_undoes_it(database: Database) {
    for (done, code, severity, subject, seen) in DRIFTS {
        sqlx::raw_sql(database.sql(done)).execute(database.pool()).await.unwrap();
        let finding = find(&database, Thresholds::new(), code, *severity, subject).await;
        assert!(finding.seen.contains(seen), "{finding:?}");
        assert_eq!(finding.subject, *subject);
        let found = diagnose(&database, Thresholds::new()).await;
        let codes: Vec<_> = found.findings.iter().map(|finding| (&finding.code, &finding.subject)).collect();
        assert_eq!(codes.len(), 1, "{codes:?}");
        paste(&database, finding.remedy.sql.as_deref().unwrap()).await;
        gone(&database, Thresholds::new(), code, subject).await;
    }
    let left = diagnose(&database, Thresholds::new()).await.findings;
    assert!(left.is_empty(), "{left:#?}");
}

/// The text of an object may stand in any migration, and may have been changed by a later one.
#[support::test]
async fn every_function_and_view_that_is_dropped_comes_back_as_it_was(database: Database) {
    let all = "SELECT p.oid::regprocedure::text AS name FROM pg_proc AS p
         WHERE p.pronamespace = '{schema}'::regnamespace
         UNION ALL SELECT c.oid::regclass::text FROM pg_class AS c
         WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind = 'v'";
    let all: Vec<String> = sqlx::query_scalar(database.sql(all)).fetch_all(database.pool()).await.unwrap();
    assert!(all.len() > 60, "{}", all.len());
    let is_for_all = "SELECT count(*) FROM pg_proc AS p WHERE p.pronamespace = '{schema}'::regnamespace
         AND p.prosecdef AND has_function_privilege('public', p.oid, 'EXECUTE')";
    let for_all = database.number(is_for_all).await;
    for name in &all {
        let kind = if name.ends_with(')') { "FUNCTION" } else { "VIEW" };
        database.execute(&format!("DROP {kind} IF EXISTS {name} CASCADE")).await;
    }
    // What needs another that is missing comes with a later round.
    let mut rounds = 0;
    loop {
        let drifts = diagnose(&database, Thresholds::new()).await.findings;
        if drifts.is_empty() {
            break;
        }
        // Two functions take their triggers along.
        assert!(rounds > 0 || drifts.len() == all.len() + 2, "{} of {} are missed", drifts.len(), all.len());
        rounds += 1;
        assert!(rounds <= 8, "not as they were: {drifts:#?}");
        for drift in drifts {
            // As psql does, which goes on after an error.
            let _ = sqlx::raw_sql(sqlx::AssertSqlSafe(drift.remedy.sql.unwrap())).execute(database.pool()).await;
        }
    }
    assert_eq!(database.number(is_for_all).await, for_all, "a function with the owner's rights is open to all roles");
}

#[support::test]
async fn a_changed_view_is_mended_where_it_is_and_keeps_its_grants(database: Database) {
    let is_granted = "SELECT count(*) FROM information_schema.role_table_grants
         WHERE table_schema = '{schema}' AND table_name = 'stuck_job' AND grantee = 'PUBLIC'";
    database.execute("GRANT SELECT ON {schema}.stuck_job TO PUBLIC").await;
    let body =
        "SELECT s.id, s.kind, s.queue, s.state, s.attempt, s.runner, s.since, s.stuck_for, s.code, s.reason, s.remedy";
    database
        .execute(&format!(
            "CREATE OR REPLACE VIEW {{schema}}.stuck_job AS {body} FROM {{schema}}.stuck_jobs() AS s LIMIT 1"
        ))
        .await;
    let changed = find(&database, Thresholds::new(), "object_changed", Warning, "view stuck_job").await;
    paste(&database, changed.remedy.sql.as_deref().unwrap()).await;
    gone(&database, Thresholds::new(), "object_changed", "view stuck_job").await;
    assert_eq!(database.number(is_granted).await, 1);
    // With a column more there is no other way, and the advice says what goes with it.
    database
        .execute(&format!(
            "CREATE OR REPLACE VIEW {{schema}}.stuck_job AS {body}, 1 AS one FROM {{schema}}.stuck_jobs() AS s"
        ))
        .await;
    let changed = find(&database, Thresholds::new(), "object_changed", Warning, "view stuck_job").await;
    assert!(changed.remedy.advice.contains("repeat its grants"), "{changed:?}");
    paste(&database, changed.remedy.sql.as_deref().unwrap()).await;
    gone(&database, Thresholds::new(), "object_changed", "view stuck_job").await;
}

#[tokio::test]
async fn any_schema_name_is_as_good_and_what_an_application_adds_beside_is_its_own() {
    for name in ["my-app", "select", "CamelCase"] {
        let schema = uniqueue::SchemaName::new(format!("{name}-drift")).unwrap();
        let client = uniqueue::Client::builder().schema(schema.clone()).pool(support::pool(3).await);
        client.migrate().await.unwrap();
        let own = format!(
            "CREATE TABLE {0}.mine (id integer); CREATE VIEW {0}.looks AS SELECT id FROM {0}.job;
             CREATE FUNCTION {0}.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
            schema.quoted()
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(own)).execute(client.pool()).await.unwrap();
        let diagnosis = Admin::new(&client).diagnose().await.unwrap();
        assert!(diagnosis.findings.is_empty(), "{:#?}", diagnosis.findings);
    }
}

#[tokio::test]
async fn a_schema_that_is_missing_behind_or_newer_is_told_with_the_command() {
    let database = Database::unmigrated(3).await;
    let missing = find(&database, Thresholds::new(), "schema_missing", Critical, &database.schema).await;
    let migrate = format!("uniqueue migrate --schema {}", database.schema);
    assert_eq!(missing.remedy.command.as_deref(), Some(migrate.as_str()));
    database.client.migrate().await.unwrap();
    gone(&database, Thresholds::new(), "schema_missing", "").await;

    database.execute("CREATE TABLE {schema}.kept AS SELECT * FROM {schema}.schema_history").await;
    database.execute("DELETE FROM {schema}.schema_history WHERE version > 5").await;
    let behind = find(&database, Thresholds::new(), "schema_behind", Critical, &database.schema).await;
    assert!(behind.seen.contains("at version 5") && behind.remedy.command.is_some(), "{behind:?}");
    let diagnosis = diagnose(&database, Thresholds::new()).await;
    assert!(diagnosis.skipped.iter().any(|skipped| skipped.why.contains("not at a version")), "{diagnosis:?}");

    database.execute("TRUNCATE {schema}.schema_history").await;
    database.execute("INSERT INTO {schema}.schema_history SELECT * FROM {schema}.kept").await;
    database.execute("INSERT INTO {schema}.schema_history VALUES (999, 'later', 'now', '1')").await;
    let newer = find(&database, Thresholds::new(), "schema_newer", Critical, &database.schema).await;
    assert!(newer.seen.contains("at version 999"), "{newer:?}");
    // Where this library may use it, its other checks are made.
    database.execute("UPDATE {schema}.schema_history SET oldest = 1").await;
    let newer = find(&database, Thresholds::new(), "schema_newer", Warning, &database.schema).await;
    assert!(newer.seen.contains("may use it"), "{newer:?}");
    let diagnosis = diagnose(&database, Thresholds::new()).await;
    assert!(diagnosis.checks.contains(&"queues".to_owned()), "{diagnosis:?}");
}

#[support::test]
async fn a_missing_key_is_critical_and_its_remedy_deletes_the_doubled_rows(database: Database) {
    let rows = "SELECT {schema}.insert_job('a'); SELECT {schema}.pause_queue('q'); SELECT {schema}.maintain();
        SELECT {schema}.set_periodic('p', kind => 'k', schedule => '@daily'); SELECT {schema}.name_place('here');
        INSERT INTO {schema}.change_log (id, actor, verb, subject, jobs) VALUES (md5('a')::uuid, 'a', 'cancel', '{}', 1)";
    sqlx::raw_sql(database.sql(rows)).execute(database.pool()).await.unwrap();
    let keys = "SELECT o.conname::text, o.conrelid::regclass::text,
            (SELECT string_agg(quote_ident(a.attname), ', ') FROM pg_attribute AS a
             WHERE a.attrelid = o.conrelid AND a.attnum > 0 AND a.attgenerated = '' AND NOT a.attisdropped)
        FROM pg_constraint AS o WHERE o.connamespace = '{schema}'::regnamespace AND o.contype = 'p'";
    let keys: Vec<(String, String, String)> =
        sqlx::query_as(database.sql(keys)).fetch_all(database.pool()).await.unwrap();
    assert!(keys.len() > 10, "{keys:?}");
    for (key, table, columns) in keys {
        let counted = format!("SELECT count(*) FROM {table}");
        let before = database.number(&counted).await;
        let double = format!(
            "DROP INDEX IF EXISTS {{schema}}.place_is_one; ALTER TABLE {table} DROP CONSTRAINT {key} CASCADE;
             INSERT INTO {table} ({columns}) SELECT {columns} FROM {table}"
        );
        sqlx::raw_sql(database.sql(&double)).execute(database.pool()).await.unwrap();
        let subject = format!("constraint {key} of {}", table.rsplit('.').next().unwrap());
        let missing = find(&database, Thresholds::new(), "object_missing", Critical, &subject).await;
        paste(&database, missing.remedy.sql.as_deref().unwrap()).await;
        gone(&database, Thresholds::new(), "object_missing", &subject).await;
        assert_eq!(database.number(&counted).await, before, "{table}");
    }
    // Of a queue's rows the one with the settings stays.
    database.execute("ALTER TABLE {schema}.queue DROP CONSTRAINT queue_pkey CASCADE").await;
    database.execute("INSERT INTO {schema}.queue (name) VALUES ('q')").await;
    let missing = find(&database, Thresholds::new(), "object_missing", Critical, "constraint queue_pkey").await;
    paste(&database, missing.remedy.sql.as_deref().unwrap()).await;
    assert_eq!(database.number("SELECT count(*) FROM {schema}.queue WHERE paused_at IS NOT NULL").await, 1);
}

#[support::test]
async fn the_remedy_of_a_missing_unique_index_leaves_the_claim_to_the_oldest_job(database: Database) {
    let double = "DROP INDEX {schema}.job_unique_key;
        INSERT INTO {schema}.job (id, kind, queue, args, meta, max_attempts, created_at, scheduled_at, state, unique_key, unique_states)
        SELECT md5(n::text)::uuid, 'a', 'default', '{}', '{}', 1, now(), now(), 'available', 'k', 255 FROM generate_series(1, 3) AS n";
    sqlx::raw_sql(database.sql(double)).execute(database.pool()).await.unwrap();
    let missing = find(&database, Thresholds::new(), "index_missing", Critical, "index job_unique_key").await;
    paste(&database, missing.remedy.sql.as_deref().unwrap()).await;
    gone(&database, Thresholds::new(), "index_missing", "index job_unique_key").await;
    let kept = "SELECT count(*) FROM {schema}.job AS j WHERE j.claims AND j.id = (SELECT o.id FROM {schema}.job AS o ORDER BY o.id LIMIT 1)";
    assert_eq!(database.number(kept).await, 1);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job AS j WHERE j.claims").await, 1);
}

/// As a dump does: the server prints what it parsed, and parses that.
#[support::test]
async fn a_definition_stays_the_same_when_it_is_made_from_its_print(database: Database) {
    let again = "DO $$
        DECLARE made text;
        BEGIN
            PERFORM set_config('search_path', '', true), set_config('check_function_bodies', 'off', true);
            FOR made IN
                SELECT pg_get_functiondef(p.oid) FROM pg_proc AS p WHERE p.pronamespace = '{schema}'::regnamespace
                UNION ALL SELECT format('CREATE OR REPLACE VIEW %s AS %s', c.oid::regclass, pg_get_viewdef(c.oid)) FROM pg_class AS c
                WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind = 'v'
            LOOP
                EXECUTE made;
            END LOOP;
        END $$";
    sqlx::raw_sql(database.sql(again)).execute(database.pool()).await.unwrap();
    let found = diagnose(&database, Thresholds::new()).await.findings;
    assert!(found.is_empty(), "{found:#?}");
}
