//! The roles of deploy/roles.sql can do their work with exactly the grants that it lists, and no more.

mod operators;
mod workers;

use support::prelude::*;

const GRANTS: &str = include_str!("../../deploy/roles.sql");

#[derive(Debug, serde::Deserialize, serde::Serialize, uniqueue::Job)]
#[job(kind = "task", max_attempts = 25)]
struct Task {}

/// A role with the grants that the file lists for it, and a pool of its own.
async fn role(database: &Database, name: &str) -> PgPool {
    let role = database.name_of(name);
    database.execute(&format!("CREATE ROLE {role} LOGIN")).await;
    let lines = GRANTS.lines().filter(|line| line.starts_with("GRANT ") && line.ends_with(&format!(" TO {name};")));
    let mut granted = 0;
    for line in lines {
        let grant = line.replace("uniqueue", &database.schema).replace(&format!(" TO {name};"), &format!(" TO {role}"));
        database.execute(&grant).await;
        granted += 1;
    }
    assert!(granted > 2, "the file lists grants for {name}");
    let options: PgConnectOptions = database.url.parse().unwrap();
    PgPoolOptions::new().acquire_timeout(WAIT).connect_with(options.username(&role)).await.unwrap()
}

fn client(database: &Database, pool: PgPool) -> Client {
    Client::builder().schema(SchemaName::new(&database.schema).unwrap()).pool(pool)
}

async fn is_refused(database: &Database, pool: &PgPool, statement: &str) {
    let error = sqlx::query(database.sql(statement)).execute(pool).await.unwrap_err();
    let code = error.as_database_error().unwrap().code().unwrap().into_owned();
    assert_eq!(code, "42501", "{statement}: {error}");
}

/// Statements that a read-only role cannot run.
const CHANGES: [&str; 38] = [
    "SELECT {schema}._write_history(gen_random_uuid(), 1, '[]')",
    "INSERT INTO {schema}.history_tally VALUES (now(), 1, 0, 0, 0, 'a', 'b', '{}', '{}')",
    "DELETE FROM {schema}.history_tally",
    "DELETE FROM {schema}.history",
    "DELETE FROM {schema}.deploy",
    "SELECT {schema}.register_kind('a', 'q')",
    "DELETE FROM {schema}.kind",
    "INSERT INTO {schema}.job (id, kind) VALUES (gen_random_uuid(), 'a')",
    "UPDATE {schema}.job SET state = 'available'",
    "DELETE FROM {schema}.job",
    "TRUNCATE {schema}.job",
    "SELECT id FROM {schema}.job FOR UPDATE",
    "SELECT * FROM {schema}.insert_job('a')",
    "SELECT * FROM {schema}.cancel_jobs(ARRAY(SELECT id FROM {schema}.job))",
    "SELECT * FROM {schema}.retry_jobs(ARRAY(SELECT id FROM {schema}.job))",
    "SELECT * FROM {schema}.release_jobs(ARRAY(SELECT id FROM {schema}.job))",
    "SELECT * FROM {schema}.reschedule_jobs(ARRAY(SELECT id FROM {schema}.job), now())",
    "SELECT * FROM {schema}.set_priority(ARRAY(SELECT id FROM {schema}.job), 1)",
    "SELECT * FROM {schema}.delete_jobs(ARRAY(SELECT id FROM {schema}.job))",
    "SELECT {schema}.release_claim('k')",
    "SELECT {schema}._release_expired(id) FROM {schema}.job",
    "SELECT {schema}._replace_holder(id, id, true) FROM {schema}.job",
    "SELECT {schema}._cover_holder(j, NULL, false) FROM {schema}.job AS j",
    "SELECT {schema}._update_holder(id, '{}') FROM {schema}.job",
    "SELECT {schema}._check_parents('{}', NULL)",
    "SELECT {schema}._add_parents('{}', '{}', '{}', '{}')",
    "DELETE FROM {schema}.job_parent",
    "SELECT * FROM {schema}.pause_queue('a')",
    r#"SELECT * FROM {schema}.set_queue('a', '{"limit": 1}')"#,
    r#"SELECT * FROM {schema}.set_queue('a', '{"rate": {"count": 1, "period": 1}}')"#,
    "SELECT * FROM {schema}.hold_queue('a', '1 s')",
    "SELECT * FROM {schema}.hold_group('a', 'g', '1 s')",
    "SELECT * FROM {schema}._spend_tokens('{a}', '{g}', now())",
    "UPDATE {schema}.maintenance SET leased_until = 'infinity'",
    "SELECT {schema}.audit_duplicates('a')",
    "DELETE FROM {schema}.duplicate_audit",
    "DELETE FROM {schema}.unique_claim",
    "CREATE TABLE {schema}.mine ()",
];
