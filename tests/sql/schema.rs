//! The schema: what the migrations make, under any name, any number of times.

use sqlx::Executor;
use support::prelude::*;
use support::{Trace, pool};
use tracing::Instrument;
use uniqueue::SCHEMA_VERSION;

/// Set to write the golden file anew: `GOLDEN=overwrite cargo test --test sql schema`.
const OVERWRITE: &str = "GOLDEN";

#[tokio::test]
async fn the_schema_is_as_the_golden_dump_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/schema.txt");
    let database = Database::new().await;
    let found = database.catalog().await.replace(&database.schema, "SCHEMA");
    if std::env::var(OVERWRITE).is_ok_and(|value| value == "overwrite") {
        std::fs::write(path, &found).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    for (line, (golden, found)) in golden.lines().zip(found.lines()).enumerate() {
        assert_eq!(golden, found, "line {}; hint: GOLDEN=overwrite, then review the diff", line + 1);
    }
    assert_eq!(golden.lines().count(), found.lines().count(), "hint: GOLDEN=overwrite, then review the diff");
}

/// What `diagnose` compares a schema with is part of the library, so after an overwrite it is built anew.
#[tokio::test]
async fn the_objects_that_the_library_knows_are_those_that_the_migrations_make() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/admin/src/health/objects.jsonl");
    let database = Database::new().await;
    let mut tx = database.pool().begin().await.unwrap();
    sqlx::raw_sql(database.sql("SET LOCAL search_path = {schema}, pg_temp")).execute(&mut *tx).await.unwrap();
    let mut found = String::new();
    for text in [
        include_str!("../../crates/admin/src/sql/health_objects.sql"),
        include_str!("../../crates/admin/src/sql/health_table_parts.sql"),
    ] {
        let text = format!("SELECT string_agg(to_jsonb(o)::text || chr(10), '') FROM ({}) AS o", text.trim());
        let asked = serde_json::json!({ "schema": database.schema });
        let objects: String = sqlx::query_scalar(database.sql(&text)).bind(asked).fetch_one(&mut *tx).await.unwrap();
        found.push_str(&objects);
    }
    if std::env::var(OVERWRITE).is_ok_and(|value| value == "overwrite") {
        std::fs::write(path, &found).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    for (golden, found) in golden.lines().zip(found.lines()) {
        assert_eq!(golden, found, "hint: GOLDEN=overwrite, then review the diff");
    }
    assert_eq!(golden.lines().count(), found.lines().count(), "hint: GOLDEN=overwrite, then review the diff");
}

#[support::test]
async fn every_object_carries_a_comment(database: Database) {
    let catalog = database.catalog().await;
    let bare: Vec<_> = catalog.lines().filter(|line| line.contains("NO COMMENT")).collect();
    assert!(bare.is_empty(), "{bare:#?}");
    let schema = "SELECT coalesce(obj_description('{schema}'::regnamespace, 'pg_namespace'), '')";
    assert_ne!(database.text(schema).await, "");
}

/// PostgreSQL looks into a function's statements only when they run. Each function is called with nulls, and with small values,
/// and undone.
#[support::test]
async fn every_function_finds_what_it_names(database: Database) {
    let calls = "SELECT format('SELECT FROM %s(%s)', p.oid::regproc, (
            SELECT string_agg(format('%s::%s', CASE WHEN v.is_null OR t.typtype = 'c' THEN 'NULL' ELSE quote_literal(
                CASE t.typcategory
                    WHEN 'A' THEN '{}' WHEN 'B' THEN 'true' WHEN 'D' THEN 'now' WHEN 'E' THEN 'available' WHEN 'N' THEN '1'
                    WHEN 'S' THEN 'a' WHEN 'T' THEN '1 s'
                    ELSE CASE t.typname WHEN 'jsonb' THEN '{}' WHEN 'xid' THEN '1' ELSE '00000000-0000-0000-0000-000000000001' END
                END
            ) END, a.type::regtype), ', ' ORDER BY a.place)
            FROM unnest(p.proargtypes) WITH ORDINALITY AS a (type, place)
            JOIN pg_type AS t ON t.oid = a.type
        ))
        FROM pg_proc AS p
        CROSS JOIN (VALUES (true), (false)) AS v (is_null)
        WHERE p.pronamespace = '{schema}'::regnamespace AND p.prorettype <> 'trigger'::regtype
            -- The name of the first argument of _find is part of a function's.
            AND p.provariadic = 0 AND p.proname <> '_find'
        ORDER BY p.oid, v.is_null";
    let mut connection = database.pool().acquire().await.unwrap();
    let path = database
        .sql("SET search_path = {schema}, pg_temp; SET statement_timeout = '10 s'; SET client_min_messages = error");
    sqlx::raw_sql(path).execute(&mut *connection).await.unwrap();
    let calls: Vec<String> = sqlx::query_scalar(database.sql(calls)).fetch_all(&mut *connection).await.unwrap();
    assert!(calls.len() > 500, "{}", calls.len());
    let mut unknown = Vec::new();
    for call in calls {
        let mut tx = connection.begin().await.unwrap();
        if let Err(error) = sqlx::raw_sql(AssertSqlSafe(call.as_str())).fetch_all(&mut *tx).await {
            let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default().into_owned();
            // Of the syntax errors and access rule violations these are about rights, or about the values.
            let is_unknown = code.starts_with("42") && !["42501", "42P10"].contains(&code.as_str());
            if is_unknown || code == "57014" {
                unknown.push(format!("{call}: {error}"));
            }
        }
        tx.rollback().await.unwrap();
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn every_statement_file_is_used_and_says_what_it_does() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/sql");
    let statements = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/statements.rs")).unwrap();
    let folders = std::fs::read_dir(directory).unwrap().map(|folder| folder.unwrap().path());
    for file in folders.flat_map(|folder| std::fs::read_dir(folder).unwrap()) {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let listed = [format!("    {name},\n"), format!("/{name}.sql\"")];
        assert!(listed.iter().any(|listed| statements.contains(listed)), "{name}.sql is not in the list of statements");
        assert!(text.starts_with("-- "), "{name}.sql does not open with what it does");
        assert!(!text.contains('*') || !text.contains("SELECT *"), "{name}.sql selects everything");
    }
}

/// Without the key an insert that names it fails. `ON CONFLICT DO NOTHING` alone would insert a row twice.
#[support::test]
async fn an_insert_names_the_key_that_it_may_meet(database: Database) {
    let bodies = "SELECT string_agg(p.proname, ', ' ORDER BY p.proname COLLATE \"C\") FROM pg_proc AS p
        WHERE p.pronamespace = '{schema}'::regnamespace AND p.prosrc || coalesce(pg_get_function_sqlbody(p.oid), '') ~ 'ON CONFLICT DO NOTHING'";
    // A job may meet another in its id and in its key, a place in its name and in being the only one.
    assert_eq!(database.text(bodies).await, "_settle_jobs, name_place");
    let statements = database.client.statements_text();
    let unnamed: Vec<_> = statements.iter().filter(|(_, text)| text.contains("ON CONFLICT DO NOTHING")).collect();
    assert!(unnamed.is_empty(), "{unnamed:?}");
}

#[support::test(unmigrated(1))]
async fn eight_processes_may_migrate_at_once(database: Database) {
    let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(8));
    let mut tasks = Vec::new();
    for _ in 0..8 {
        // A pool of its own each, as eight processes would have.
        let client =
            Client::builder().schema(SchemaName::new(&database.schema).unwrap()).pool(database.another_pool(1).await);
        let barrier = barrier.clone();
        tasks.push(tokio::spawn(async move {
            barrier.wait().await;
            client.migrate().await.unwrap().len()
        }));
    }
    let mut applied = Vec::new();
    for task in tasks {
        applied.push(task.await.unwrap());
    }
    applied.sort_unstable();
    let latest = database.number("SELECT count(*) FROM {schema}.schema_history").await;
    assert_eq!(applied[..7], [0; 7]);
    assert_eq!(i64::try_from(applied[7]).unwrap(), latest);
    database.client.check_schema().await.unwrap();
}

#[tokio::test]
async fn a_schema_of_any_allowed_name_works() {
    let names = ["my-app", "CamelCase", "_x", "select"].map(String::from).into_iter().chain(["x".repeat(50)]);
    for name in names {
        let client = Client::builder().schema(SchemaName::new(&name).unwrap()).pool(pool(2).await);
        client.migrate().await.unwrap();
        assert!(!client.insert(job("a").unique_key(uniqueue::UniqueKey::raw("k"))).await.unwrap().duplicate);
        assert!(client.insert(job("a").unique_key(uniqueue::UniqueKey::raw("k"))).await.unwrap().duplicate);
    }
}

#[support::test]
async fn a_migration_changes_nothing_else_that_is_in_its_schema(database: Database) {
    let (pool, name) = (database.pool().clone(), format!("{}_shared", database.schema));
    let sql = |text: &str| sqlx::AssertSqlSafe(text.replace("{shared}", &name));
    let others = "CREATE SCHEMA {shared};
        CREATE FUNCTION {shared}.report() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN 1; END';
        CREATE AGGREGATE {shared}.total(integer) (SFUNC = int4pl, STYPE = integer);
        CREATE TABLE {shared}.bill (id uuid PRIMARY KEY, queue text)";
    sqlx::raw_sql(sql(others)).execute(&pool).await.unwrap();
    let state = "SELECT string_agg(format('%s %s %s', p.oid::regprocedure, p.proconfig, p.proacl), ', ' ORDER BY p.oid)
            || (SELECT count(*) FROM pg_description AS d
                WHERE d.objoid = '{shared}.bill'::regclass OR d.objoid = (SELECT k.oid FROM pg_constraint AS k
                    WHERE k.conrelid = '{shared}.bill'::regclass AND k.contype = 'p'))
        FROM pg_proc AS p
        WHERE p.pronamespace = '{shared}'::regnamespace AND p.proname IN ('report', 'total')";
    let before: String = sqlx::query_scalar(sql(state)).fetch_one(&pool).await.unwrap();
    let client = Client::builder().schema(name.parse().unwrap()).pool(pool.clone());
    client.migrate().await.unwrap();
    let after: String = sqlx::query_scalar(sql(state)).fetch_one(&pool).await.unwrap();
    assert_eq!(after, before);
    sqlx::raw_sql(sql("DROP SCHEMA {shared} CASCADE")).execute(&pool).await.unwrap();
}

#[support::test]
async fn migrating_again_changes_nothing(database: Database) {
    let before = database.catalog().await;
    assert!(database.client.migrate().await.unwrap().is_empty());
    assert_eq!(database.catalog().await, before);
}

/// The part of a migration's script that makes the schema as it was before the eighth migration.
fn up_to_unique_policies(whole: &str) -> String {
    let until = whole.find(", 'unique_policy'").unwrap();
    let until = until + whole[until..].find(";\n").unwrap();
    // The sentence on the history comes last, the first time.
    let comments = whole.find("COMMENT ON TABLE schema_history").unwrap();
    format!("{};\n{}", &whole[..until], &whole[comments..])
}

#[tokio::test]
async fn the_printed_sql_makes_what_a_migration_makes() {
    let golden = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/schema.txt")).unwrap();
    // From nothing, from an older schema, and from an empty one that was created beforehand.
    for case in ["nothing", "older", "empty"] {
        let database = Database::unmigrated(1).await;
        let run = async |sql: &str| database.pool().execute(sqlx::raw_sql(database.sql(sql))).await;
        let whole = database.client.migration().sql().await.unwrap();
        if case == "older" {
            run(&up_to_unique_policies(&whole)).await.unwrap();
        } else if case == "empty" {
            run("CREATE SCHEMA {schema}; COMMENT ON SCHEMA {schema} IS 'mine'").await.unwrap();
        }
        let waiting = database.client.migration().waiting().await.unwrap();
        assert_eq!(waiting[0], if case == "older" { "V8 duplicate_audit" } else { "V1 job" });
        let script = database.client.migration().sql().await.unwrap();
        assert!(
            script.starts_with("BEGIN;\n\nSET LOCAL client_encoding = 'UTF8';\n") && script.ends_with("COMMIT;\n\n"),
            "{case}"
        );
        run(&script).await.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(database.catalog().await.replace(&database.schema, "SCHEMA"), golden, "{case}");
        database.client.check_schema().await.unwrap();
        // The library reads the history, and finds nothing to do and nothing changed.
        assert!(database.client.migrate().await.unwrap().is_empty(), "{case}");
        assert_eq!(database.client.migration().sql().await.unwrap(), "", "{case}");
        assert!(database.client.migration().waiting().await.unwrap().is_empty(), "{case}");
        let told =
            "SELECT count(*) FROM {schema}.schema_history WHERE applied_on::timestamptz > now() - interval '1 minute'";
        assert_eq!(database.number(told).await, database.number("SELECT count(*) FROM {schema}.schema_history").await);
        // Late, it fails as a whole.
        assert!(run(&script).await.is_err(), "{case}");
        run("ROLLBACK").await.unwrap();
        assert_eq!(database.catalog().await.replace(&database.schema, "SCHEMA"), golden, "{case}");
    }
}

#[support::test(unmigrated(2))]
async fn a_migration_waits_for_locks_no_longer_than_it_is_told(database: Database) {
    let mut tx = database.pool().begin().await.unwrap();
    // As another process that migrates begins.
    sqlx::query(database.sql("CREATE SCHEMA {schema}")).execute(&mut *tx).await.unwrap();
    let limited = database.client.migration().lock_timeout(std::time::Duration::from_millis(50));
    let error = limited.await.unwrap_err();
    assert!(matches!(error, Error::Migration { .. }), "{error}");
    assert!(error.to_string().contains("lock timeout") && error.to_string().contains("; hint: another transaction"));
    tx.rollback().await.unwrap();
    assert!(!database.client.migration().lock_timeout(std::time::Duration::from_secs(20)).await.unwrap().is_empty());
}

#[support::test]
async fn a_migration_with_nothing_to_do_waits_for_no_lock(database: Database) {
    let mut tx = database.pool().begin().await.unwrap();
    for lock in [
        "LOCK TABLE {schema}.schema_history IN EXCLUSIVE MODE",
        "LOCK TABLE {schema}.job IN ACCESS EXCLUSIVE MODE",
        "SELECT pg_advisory_xact_lock(hashtextextended('uniqueue migrate {schema}', 0))",
    ] {
        sqlx::query(database.sql(lock)).execute(&mut *tx).await.unwrap();
    }
    let migrated = timeout(std::time::Duration::from_secs(5), database.client.migrate()).await;
    assert!(migrated.expect("no wait").unwrap().is_empty());
    tx.rollback().await.unwrap();
}

#[support::test(unmigrated(2))]
async fn a_role_without_grants_cannot_hold_up_a_migration(database: Database) {
    let whole = database.client.migration().sql().await.unwrap();
    database.pool().execute(sqlx::raw_sql(database.sql(&up_to_unique_policies(&whole)))).await.unwrap();
    let stranger = database.name_of("stranger");
    database.execute(&format!("CREATE ROLE {stranger} LOGIN")).await;
    let options: PgConnectOptions = database.url.parse().unwrap();
    let mut stranger = PgConnection::connect_with(&options.username(&stranger)).await.unwrap();
    // It takes every lock that it can take.
    let mut tx = stranger.begin().await.unwrap();
    for key in ["uniqueue migrate {schema}", "uniqueue {schema}", "{schema}"] {
        let lock = format!("SELECT pg_advisory_xact_lock(hashtextextended('{key}', 0))");
        sqlx::query(database.sql(&lock)).execute(&mut *tx).await.unwrap();
    }
    for table in ["schema_history", "job"] {
        let mut attempt = tx.begin().await.unwrap();
        let lock = database.sql(&format!("LOCK TABLE {{schema}}.{table} IN ACCESS SHARE MODE"));
        let refused = sqlx::query(lock).execute(&mut *attempt).await.unwrap_err();
        assert_eq!(refused.as_database_error().unwrap().code().as_deref(), Some("42501"), "{refused}");
        attempt.rollback().await.unwrap();
    }
    let limited = database.client.migration().lock_timeout(std::time::Duration::from_secs(5));
    assert_eq!(limited.await.unwrap()[0], "V8 duplicate_audit");
    tx.rollback().await.unwrap();
}

/// Stands for a migration of a later release. Once there is one, this runs the binary of the commit before it against the schema
/// of today: `git worktree add`, `cargo build -p uniqueue-cli`, and `uniqueue work` of that.
async fn migrate_later(database: &Database, oldest: i32) {
    let later = format!(
        "INSERT INTO {{schema}}.schema_history VALUES (999, 'later', '2030-01-01T00:00:00Z', '1', {oldest})
         ON CONFLICT (version) DO UPDATE SET oldest = excluded.oldest"
    );
    database.execute(&later).await;
}

#[support::test]
async fn a_newer_schema_that_may_be_used_is_used_and_left_alone(database: Database) {
    let stored = database.number("SELECT max(oldest)::bigint FROM {schema}.schema_history").await;
    assert!((1..=i64::from(SCHEMA_VERSION)).contains(&stored), "{stored}");
    migrate_later(&database, SCHEMA_VERSION).await;
    let before = database.catalog().await;
    assert!(database.client.migrate().await.unwrap().is_empty());
    assert_eq!(database.client.migration().sql().await.unwrap(), "");
    assert_eq!(database.catalog().await, before);
    let (trace, span) = Trace::begin();
    let starting = async {
        database.client.check_schema().await.unwrap();
        quick(&database.client).worker(|_: RunningJob<Task>| async {}).start().await.unwrap()
    };
    let runner = starting.instrument(span.clone()).await;
    drop(span);
    let logged = trace.ended("request").remove(0).events;
    assert_eq!(logged.iter().filter(|event| event.name.contains("newer than this uniqueue")).count(), 1, "{logged:?}");
    let id = database.client.insert(Task { n: 1 }).await.unwrap().id();
    database.until_state(id, JobState::Completed).await;
    runner.stop().await.unwrap();
}

#[support::test]
async fn a_newer_schema_that_may_not_be_used_is_refused_and_left_alone(database: Database) {
    migrate_later(&database, SCHEMA_VERSION + 1).await;
    for error in [database.client.migrate().await.unwrap_err(), database.client.check_schema().await.unwrap_err()] {
        assert!(
            matches!(error, Error::NewerSchema { found: 999, oldest, .. } if oldest == SCHEMA_VERSION + 1),
            "{error}"
        );
        let both = format!(
            "needs a uniqueue that knows version {}: this one knows {SCHEMA_VERSION}; hint: upgrade",
            SCHEMA_VERSION + 1
        );
        assert!(error.to_string().contains(&both), "{error}");
    }
}

#[support::test(unmigrated(1))]
async fn a_schema_of_another_pre_release_is_to_be_dropped(database: Database) {
    database.client.migrate().await.unwrap();
    database.execute("UPDATE {schema}.schema_history SET name = 'job_queue', checksum = '7' WHERE version = 1").await;
    for error in [database.client.migrate().await.unwrap_err(), database.client.check_schema().await.unwrap_err()] {
        assert!(matches!(&error, Error::IncompatibleSchema { found, .. } if found == "V1 job_queue"), "{error}");
        assert!(error.to_string().contains(&format!("DROP SCHEMA {} CASCADE", database.schema)), "{error}");
    }
}

#[support::test(unmigrated(2))]
async fn a_migration_that_fails_leaves_nothing_half_done(database: Database) {
    // Something of the application's own is in the way.
    database.execute("CREATE SCHEMA {schema}").await;
    database.execute("CREATE TABLE {schema}.runner (mine integer)").await;
    let error = database.client.migrate().await.unwrap_err();
    assert!(matches!(error, Error::Migration { .. }), "{error}");
    assert!(error.to_string().contains("runner"), "{error}");
    let objects = "SELECT count(*) FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'r'";
    assert_eq!(database.number(objects).await, 1);
}
