//! Roles that operate and look.

use support::prelude::*;

use super::{CHANGES, Task, client, is_refused, role};

#[support::test]
async fn an_operator_can_look_change_jobs_and_set_queues_and_cannot_insert(database: Database) {
    let pool = role(&database, "operator").await;
    let operator = client(&database, pool.clone());
    let key = UniqueKey::raw("k").states(JobState::ALL);
    let id = database.client.insert(job("a").pending().unique_key(key)).await.unwrap().id();
    assert_eq!(operator.release(id).await.unwrap(), [id]);
    assert_eq!(operator.set_priority(id, 3).await.unwrap(), [id]);
    assert_eq!(operator.reschedule(id, time::OffsetDateTime::UNIX_EPOCH).await.unwrap(), [id]);
    database.set_state(id, "running").await;
    assert_eq!(operator.cancel(JobFilter::all()).await.unwrap(), [id]);
    assert_eq!(operator.retry(id).await.unwrap(), [id]);
    assert_eq!(operator.release_claim("k").await.unwrap(), Some(id));
    assert_eq!(operator.jobs(JobFilter::all()).await.unwrap().len(), 1);
    assert_eq!(operator.delete(JobFilter::all()).await.unwrap(), [id]);
    assert!(operator.queue("a").pause().await.unwrap().paused_at.is_some());
    assert_eq!(operator.queue("a").resume().await.unwrap().paused_at, None);
    assert_eq!(operator.queue("a").limit(Some(2)).await.unwrap().limit, Some(2));
    assert_eq!(operator.queue("a").set(QueueChanges::new().max_waiting(Some(2))).await.unwrap().max_waiting, Some(2));
    assert_eq!(operator.queue("a").set(QueueChanges::new().max_waiting(None)).await.unwrap().max_waiting, None);
    assert_eq!(Admin::new(&operator).queues().await.unwrap().len(), 1);
    assert!(operator.queue("b").limit(Some(2)).await.is_ok() && operator.queue("b").remove().await.unwrap());
    assert!(!operator.queue("b").remove().await.unwrap(), "it is gone");
    operator.define_periodic(PeriodicJob::every("p", Duration::from_secs(3600), job("a"))).await.unwrap();
    Admin::new(&operator).periodic().pause("p").await.unwrap();
    Admin::new(&operator).periodic().remove("p").await.unwrap();
    operator.register::<Task>().await.unwrap();
    assert!(Admin::new(&operator).remove_kind("task").await.unwrap());
    Admin::new(&operator).audit_duplicates("a", None).await.unwrap();
    Admin::new(&operator).stop_audit("a", None).await.unwrap();
    assert_eq!(Admin::new(&operator).audited_kinds().await.unwrap().len(), 1);
    assert_eq!(Admin::new(&operator).suppressed_duplicates().await.unwrap(), []);
    let off = "INSERT INTO {schema}.maintenance (service, leased_until) VALUES ('pruner', 'infinity')";
    sqlx::query(database.sql(off)).execute(&pool).await.unwrap();
    for statement in [
        "INSERT INTO {schema}.job (id, kind) VALUES (gen_random_uuid(), 'a')",
        "SELECT * FROM {schema}.insert_job('a')",
        "UPDATE {schema}.runner SET idle = true",
        "TRUNCATE {schema}.job",
        "DROP VIEW {schema}.stuck_job",
        "ALTER TABLE {schema}.job SET (fillfactor = 50)",
        "CREATE TABLE {schema}.mine ()",
    ] {
        is_refused(&database, &pool, statement).await;
    }
}

#[support::test]
async fn an_operator_can_do_the_same_in_psql(database: Database) {
    let pool = role(&database, "operator").await;
    let id = database.client.insert(job("a").pending().unique_key(UniqueKey::raw("k"))).await.unwrap().id();
    for call in [
        "release_jobs(ARRAY['{id}'::uuid])",
        "set_priority(ARRAY['{id}'::uuid], 3)",
        "reschedule_jobs(ARRAY['{id}'::uuid], now() + interval '1 hour')",
        "retry_jobs(ARRAY['{id}'::uuid], ARRAY['scheduled'])",
        "cancel_jobs(ARRAY['{id}'::uuid])",
        "delete_jobs(ARRAY['{id}'::uuid])",
        "pause_queue('a')",
        "resume_queue('a')",
        r#"set_queue('a', '{"limit": 2, "keep_completed": 0}')"#,
    ] {
        let call = database.sql(&format!("SELECT * FROM {{schema}}.{}", call.replace("{id}", &id.to_string())));
        assert_eq!(sqlx::query(call.clone()).fetch_all(&pool).await.unwrap().len(), 1, "{}", call.as_str());
    }
    let release = database.sql("SELECT {schema}.release_claim('k')");
    sqlx::query(release).execute(&pool).await.unwrap();
    every_view(&database, &pool, &VIEWS).await;
}

const VIEWS: [&str; 14] = [
    "unique_claim",
    "queue_status",
    "failing_kind",
    "expired_job",
    "failing_code",
    "stuck_job",
    "retention",
    "group_status",
    "waiting_child",
    "table_health",
    "waiting_insert",
    "suppressed_duplicate",
    "suppressed_by_kind",
    "running_job",
];

/// Selects every column of these views, for real: each has something to show.
async fn every_view(database: &Database, pool: &PgPool, views: &[&str]) {
    let jobs = "INSERT INTO {schema}.job (id, kind, state, worker, finalized_at, unique_key, unique_states)
        SELECT gen_random_uuid(), 'a', s::{schema}.job_state, gen_random_uuid(), CASE WHEN s = 'discarded' THEN now() END, s, 255
        FROM unnest(ARRAY['available', 'running', 'discarded', 'retryable']) AS s";
    database.execute(jobs).await;
    database.client.insert(job("a").group("g")).await.unwrap();
    database.client.insert(job("a").expires_at(time::OffsetDateTime::UNIX_EPOCH)).await.unwrap();
    database.execute("SELECT {schema}._run_service('expirer')").await;
    Admin::new(&database.client).audit_duplicates("a", None).await.unwrap();
    assert!(database.client.insert(job("a").unique_key(UniqueKey::raw("available"))).await.unwrap().duplicate);
    let parent = database.client.insert(job("a")).await.unwrap();
    database.client.insert(job("b").after_final(&parent)).await.unwrap();
    why_each_waits(database, pool).await;
    for view in views {
        let all = database.sql(&format!("SELECT v::text FROM {{schema}}.{view} AS v"));
        let rows = sqlx::query(all).fetch_all(pool).await.unwrap_or_else(|error| panic!("{view}: {error}"));
        assert_eq!(rows.is_empty(), *view == "waiting_insert", "{view}");
    }
}

/// Asks of every job why it waits, while a session has some of them locked.
async fn why_each_waits(database: &Database, pool: &PgPool) {
    let mut locks = database.pool().begin().await.unwrap();
    let lock = "SELECT FROM {schema}.job WHERE state = 'available' FOR UPDATE";
    sqlx::query(database.sql(lock)).execute(&mut *locks).await.unwrap();
    let why = "SELECT count(*) FROM {schema}.job AS j, {schema}.why_waiting(j.id) AS w WHERE w.code = 'locked'";
    let locked: i64 = sqlx::query_scalar(database.sql(why)).fetch_one(pool).await.unwrap();
    assert!(locked > 1, "{locked}");
    locks.rollback().await.unwrap();
}

#[support::test]
async fn a_reader_can_look_at_everything_and_change_nothing(database: Database) {
    let pool = role(&database, "reader").await;
    every_view(&database, &pool, &VIEWS).await;
    let reader = client(&database, pool.clone());
    assert_eq!(reader.jobs(JobFilter::all()).await.unwrap().len(), 8);
    assert_eq!(reader.count_jobs(JobFilter::all(), 10).await.unwrap().to_string(), "8");
    assert_eq!(Admin::new(&reader).queues().await.unwrap().len(), 1);
    assert!(reader.holder("available").await.unwrap().is_some());
    assert!(Admin::new(&reader).periodic().list().await.unwrap().is_empty());
    assert!(Admin::new(&reader).kinds().await.unwrap().is_empty());
    reader.explain(job("a").unique_key(UniqueKey::raw("available"))).await.unwrap();
    reader.check_schema().await.unwrap();
    for statement in CHANGES {
        is_refused(&database, &pool, statement).await;
    }
    // Of other roles' sessions it sees the names, not the statements.
    let mut open = database.pool().begin().await.unwrap();
    sqlx::query("SELECT pg_current_xact_id(), 'secret'").execute(&mut *open).await.unwrap();
    let queries =
        database.sql("SELECT count(*) FROM {schema}.table_health WHERE oldest_snapshot_query LIKE '%secret%'");
    assert_eq!(sqlx::query_scalar::<_, i64>(queries).fetch_one(&pool).await.unwrap(), 0);
    open.rollback().await.unwrap();
}

#[support::test]
async fn an_observer_has_the_views_and_never_sees_a_payload(database: Database) {
    let pool = role(&database, "observer").await;
    every_view(&database, &pool, &VIEWS[..12]).await;
    for statement in CHANGES {
        is_refused(&database, &pool, statement).await;
    }
    for secret in ["args", "meta", "output", "progress"] {
        is_refused(&database, &pool, &format!("SELECT {secret} FROM {{schema}}.job")).await;
    }
    is_refused(&database, &pool, "SELECT j FROM {schema}.job AS j").await;
    is_refused(&database, &pool, "SELECT progress FROM {schema}.running_job").await;
}

#[support::test]
async fn only_these_functions_lend_their_owner_s_rights(database: Database) {
    let lending = "SELECT string_agg(proname, ' ' ORDER BY proname COLLATE \"C\") FROM pg_proc
        WHERE pronamespace = '{schema}'::regnamespace AND prosecdef";
    assert_eq!(
        database.text(lending).await,
        "_add_parents _apply_max_waiting _check_parents _cover_holder _note_deploy _note_duplicates _refuse_beyond_max_waiting _refuse_misplaced _release_expired \
         _replace_holder _tend_history _update_holder _write_history complete_jobs extend_jobs fail_jobs fetch_jobs finish_jobs fold_duplicates \
         give_back_jobs maintain snooze_jobs stop_worker"
    );
    // The audit's functions check what they are given. The others are for roles that insert, and for remote workers.
    let public = "SELECT string_agg(proname, ' ' ORDER BY proname COLLATE \"C\") FROM pg_proc
        WHERE pronamespace = '{schema}'::regnamespace AND prosecdef AND has_function_privilege('public', oid, 'EXECUTE')";
    assert_eq!(database.text(public).await, "_note_duplicates fold_duplicates");
    // A function that finds its tables by name does so on a path of its own where it lends rights, is for users, or a statement
    // of the library calls it. The others run on the path of the functions that call them.
    let statements = database.client.statements_text();
    let trusting = "SELECT coalesce(string_agg(proname, ' '), '') FROM pg_proc
        WHERE pronamespace = '{schema}'::regnamespace AND prosqlbody IS NULL
            AND (prosecdef OR left(proname, 1) <> '_' OR strpos($1, '{schema}.' || proname || '(') > 0)
            AND prosrc ~ '\\m(FROM|INTO|UPDATE|JOIN) (job|queue|runner|maintenance|periodic|kind)\\M'
            AND NOT coalesce(array_to_string(proconfig, ' ') LIKE '%search_path={schema}, pg_temp%', false)";
    let called = statements.iter().map(|(_, text)| text.replace('"', "")).collect::<String>();
    let trusting: String =
        sqlx::query_scalar(database.sql(trusting)).bind(called).fetch_one(database.pool()).await.unwrap();
    assert_eq!(trusting, "");
    let writable = "SELECT count(*) FROM information_schema.views
        WHERE table_schema = '{schema}' AND is_insertable_into = 'YES' AND table_name <> 'unique_claim'";
    assert_eq!(database.number(writable).await, 0);
}

#[support::test]
async fn a_holder_that_row_level_security_hides_is_an_error_that_says_so_at_once(database: Database) {
    let pool = role(&database, "inserter").await;
    let key = || UniqueKey::raw("k");
    database.client.insert(job("a").unique_key(key())).await.unwrap();
    database.execute("ALTER TABLE {schema}.job ENABLE ROW LEVEL SECURITY").await;
    database.execute("CREATE POLICY own ON {schema}.job USING (queue = 'own')").await;
    let inserter = client(&database, pool.clone());
    let own = || job("a").queue("own");
    inserter.insert(own()).await.unwrap();
    inserter.insert(own().unique_key(UniqueKey::raw("free"))).await.unwrap();
    let began = std::time::Instant::now();
    let mut tx = pool.begin().await.unwrap();
    for error in [
        inserter.insert(own().unique_key(key())).await.unwrap_err(),
        inserter.insert(own().unique_key(key().on_conflict(OnConflict::Replace))).await.unwrap_err(),
        inserter.insert_many([own(), own().unique_key(key())]).await.unwrap_err(),
        inserter.insert(own().unique_key(key())).tx(&mut tx).await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("row-level security hides the job"), "{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}
