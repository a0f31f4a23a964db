//! A schema that is dropped and made anew under live runners and clients, and every other error that a new connection heals.

use support::prelude::*;

/// Inserts a job as soon as that is possible, and waits until it has run.
async fn works_again(database: &Database) {
    // A connection of the pool may remember the old schema. Each does so once.
    let inserted = eventually!(
        let answer = database.client.insert(Task { n: 1 }).await;
        answer.is_ok(), "{answer:?}"
    );
    let job = inserted.unwrap().id();
    eventually!(
        let answer = database.client.job(job).await;
        matches!(&answer, Ok(Some(job)) if job.state == JobState::Completed), "{answer:?}"
    )
    .unwrap();
}

async fn drop_schema(database: &Database) {
    let drop = format!("DROP SCHEMA {} CASCADE", database.schema);
    let pool = database.another_pool(1).await;
    // The drop and a function of the runner can each have locked a table that the other one needs next. The server may then end
    // the drop.
    while let Err(error) = sqlx::raw_sql(AssertSqlSafe(drop.clone())).execute(&pool).await {
        let code = error.as_database_error().and_then(|error| error.code());
        assert_eq!(code.as_deref(), Some("40P01"), "{error}");
    }
}

/// Migrates as another process does, which has no connection in common with the test's client.
async fn migrate(database: &Database) {
    database.client_over(database.another_pool(2).await).migrate().await.unwrap();
}

fn runner(database: &Database) -> Runner {
    Runner::new(database.client.clone()).queue("default", 4).lease(Duration::from_secs(2)).worker(at_once)
}

#[support::test]
async fn a_runner_goes_on_when_its_schema_is_made_anew(database: Database) {
    let runner = runner(&database).start().await.unwrap();
    // Every statement has been prepared on some connection.
    for _ in 0..3 {
        works_again(&database).await;
    }
    let id = runner.id();
    drop_schema(&database).await;
    migrate(&database).await;
    works_again(&database).await;
    // The heartbeat has entered the runner again, and maintenance goes on.
    database.until("SELECT least(count(*), 1) FROM {schema}.runner WHERE leased_until > now()", 1).await;
    assert_ne!(runner.id(), id);
    let later = database.client.insert(Task { n: 2 }).scheduled_in(Duration::from_millis(300)).await.unwrap().id();
    database.until_state(later, JobState::Completed).await;
    runner.stop().await.unwrap();
}

#[support::test]
async fn a_runner_waits_for_its_schema_longer_than_a_lease(database: Database) {
    let runner = runner(&database).start().await.unwrap();
    works_again(&database).await;
    drop_schema(&database).await;
    // Lost is lost also where nobody could take it.
    eventually!(!runner.health().is_alive(), "the lease goes on without a schema");
    migrate(&database).await;
    works_again(&database).await;
    runner.stop().await.unwrap();
}

#[support::test]
async fn a_periodic_job_runs_over_a_new_connection_where_its_session_is_at_fault(database: Database) {
    // The first session that inserts a job is refused each time. The number of a sequence outlives the rollback.
    database.execute("CREATE SEQUENCE {schema}.refused").await;
    let refuse = "IF NOT (SELECT is_called FROM {schema}.refused) THEN
            PERFORM setval('{schema}.refused', pg_backend_pid());
        END IF;
        IF (SELECT last_value FROM {schema}.refused) = pg_backend_pid() THEN
            RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = 'told to fail';
        END IF;";
    database.trigger("BEFORE INSERT", "true", refuse).await;
    let every = PeriodicJob::every("a", Duration::from_secs(1), Task { n: 1 });
    database.client.define_periodic(every).await.unwrap();
    database.start(runner(&database)).await;
    database.until("SELECT least(count(*), 1) FROM {schema}.job", 1).await;
    assert_eq!(database.number("SELECT count(*) FROM {schema}.refused WHERE is_called").await, 1);
}

/// A client with one connection, which remembers its statements.
async fn single(database: &Database) -> Client {
    database.client_over(database.another_pool(1).await)
}

async fn backend(client: &Client) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(client.pool()).await.unwrap()
}

#[support::test]
async fn a_connection_that_meets_an_error_of_its_session_is_dropped(database: Database) {
    for (code, is_dropped) in [
        ("0A000", true),
        ("24000", true),
        ("25P02", true),
        ("26000", true),
        ("34000", true),
        ("42704", true),
        ("42804", true),
        ("53200", true),
        ("57P01", true),
        ("57P05", true),
        ("XX000", true),
        // These are of the statement's data.
        ("22012", false),
        ("23505", false),
        ("P0001", false),
    ] {
        let client = single(&database).await;
        client.queue("a").settings().await.unwrap();
        let before = backend(&client).await;
        let create = format!(
            "CREATE OR REPLACE FUNCTION {{schema}}._queue_may_be(queue_name text) RETURNS boolean LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION USING ERRCODE = '{code}', MESSAGE = 'told to fail'; END $$"
        );
        database.execute(&create).await;
        let error = client.queue("a").pause().await.unwrap_err().to_string();
        assert!(error.contains("told to fail"), "{code}: {error}");
        assert_eq!(backend(&client).await != before, is_dropped, "{code}");
    }
}

#[support::test]
async fn a_plan_of_an_old_schema_is_met_once_a_connection(database: Database) {
    let client = single(&database).await;
    let job = client.insert(Task { n: 1 }).await.unwrap().id();
    assert!(client.job(job).await.unwrap().is_some());
    drop_schema(&database).await;
    migrate(&database).await;
    let error = client.job(job).await.unwrap_err().to_string();
    assert!(error.contains("cached plan must not change result type"), "{error}");
    assert_eq!(client.job(job).await.unwrap().map(|job| job.id), None);
    // A session whose statements were forgotten, as by a pooler's DISCARD ALL.
    sqlx::raw_sql("DEALLOCATE ALL").execute(client.pool()).await.unwrap();
    let error = client.job(job).await.unwrap_err().to_string();
    assert!(error.contains("does not exist"), "{error}");
    assert_eq!(client.job(job).await.unwrap().map(|job| job.id), None);
    // A session that the server ended while it was idle.
    let session: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(client.pool()).await.unwrap();
    sqlx::raw_sql("SET idle_session_timeout = '1ms'").execute(client.pool()).await.unwrap();
    database.until(&format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {session}"), 0).await;
    assert_eq!(client.job(job).await.unwrap().map(|job| job.id), None);
}
