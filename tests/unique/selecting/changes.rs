//! Changes by a filter.

use support::prelude::*;

/// Locks a job until the transaction ends.
async fn lock(database: &Database, id: JobId, how: &str) -> sqlx::Transaction<'static, sqlx::Postgres> {
    database.begin(&format!("SELECT id FROM {{schema}}.job WHERE id = '{id}' {how}")).await
}

#[support::test]
async fn a_change_by_filter_goes_in_batches_that_no_locked_job_holds_up(database: Database) {
    let client = database.client.clone();
    let jobs = client.insert_many((0..2500).map(|_| job("a"))).await.unwrap();
    let mut ids: Vec<_> = jobs.iter().map(|job| job.id()).collect();
    ids.sort_unstable();
    // Two jobs of the second batch are locked.
    let open = lock(&database, ids[1500], "FOR UPDATE").await;
    let short = lock(&database, ids[1501], "FOR UPDATE").await;
    let changing = tokio::spawn(async move {
        let mut sizes = Vec::new();
        let changed = client.cancel(JobFilter::new().kind("a")).on_batch(|batch| sizes.push(batch.len())).await;
        (changed, sizes)
    });
    let cancelled = "SELECT count(*) FROM {schema}.job WHERE state = 'cancelled'";
    database.until(cancelled, 2498).await;
    // What comes while the change is under way is not meant.
    let late = database.client.insert(job("a")).await.unwrap().id();
    short.commit().await.unwrap();
    database.until(cancelled, 2499).await;
    // A change that waits for the last job has no other locked.
    let mut others = database.pool().begin().await.unwrap();
    let lock_all = database.sql("SELECT count(*) FROM (SELECT FROM {schema}.job FOR UPDATE SKIP LOCKED) AS free");
    let free: i64 = sqlx::query_scalar(lock_all).fetch_one(&mut *others).await.unwrap();
    assert_eq!(free, 2500);
    others.rollback().await.unwrap();
    open.commit().await.unwrap();
    let (changed, sizes) = timeout(WAIT, changing).await.unwrap().unwrap();
    let mut changed = changed.unwrap();
    changed.sort_unstable();
    assert_eq!((changed, sizes), (ids, vec![1000, 998, 500, 1, 1]));
    assert_eq!(database.client.job(late).await.unwrap().unwrap().state, JobState::Available);
}

#[support::test]
async fn a_change_by_filter_comes_back_for_what_was_locked_and_keeps_to_its_limit(database: Database) {
    let jobs = database.client.insert_many((0..10).map(|_| job("a"))).await.unwrap();
    let mut ids: Vec<_> = jobs.iter().map(|job| job.id()).collect();
    ids.sort_unstable();
    let deleting = |limit| {
        let client = database.client.clone();
        tokio::spawn(async move { client.delete(JobFilter::new().kind("a").limit(limit)).await.unwrap() })
    };
    let left = "SELECT count(*) FROM {schema}.job";
    // The oldest are meant, not those that are free. The lock is what a foreign key takes.
    let open = lock(&database, ids[1], "FOR KEY SHARE").await;
    let changing = deleting(3);
    database.until(left, 8).await;
    open.commit().await.unwrap();
    let mut deleted = timeout(WAIT, changing).await.unwrap().unwrap();
    deleted.sort_unstable();
    assert_eq!(deleted, ids[..3]);

    // One that is gone when it is free makes room for another.
    let mut open = lock(&database, ids[4], "FOR UPDATE").await;
    let changing = deleting(2);
    database.until(left, 6).await;
    let delete = database.sql("DELETE FROM {schema}.job WHERE id = $1");
    sqlx::query(delete).bind(ids[4].as_uuid()).execute(&mut *open).await.unwrap();
    open.commit().await.unwrap();
    let deleted = timeout(WAIT, changing).await.unwrap().unwrap();
    assert_eq!(deleted, [ids[3], ids[5]]);
    assert_eq!(database.number(left).await, 4);
}

#[support::test]
async fn a_change_can_have_another_time_limit_than_its_connections(database: Database) {
    let client = impatient(&database).await;
    client.insert_many((0..3).map(|n| job(if n == 1 { "slow" } else { "a" }))).await.unwrap();
    // Each look at the slow job takes longer than a statement of the pool may.
    database.execute("ALTER TABLE {schema}.job RENAME TO job_rows").await;
    let slow = "CREATE VIEW {schema}.job AS SELECT * FROM {schema}.job_rows
        WHERE CASE WHEN kind = 'slow' THEN pg_sleep(0.4) IS NOT NULL ELSE true END";
    database.execute(slow).await;
    let error = client.delete(JobFilter::all().limit(2)).await.unwrap_err();
    assert!(error.is_statement_timeout(), "{error}");
    let mut connection = client.pool().acquire().await.unwrap();
    let deleted = client.delete(JobFilter::all().limit(1)).timeout(WAIT).tx(&mut connection).await.unwrap();
    assert_eq!(deleted.len(), 1);
    drop(connection);
    let deleting = client.delete(JobFilter::all()).actor("ada").timeout(WAIT);
    assert_eq!(deleting.await.unwrap().len(), 2);
    assert_eq!(Admin::new(&client).change_log().await.unwrap()[0].jobs, Some(2));
    for _ in 0..client.pool().size() {
        let limit: String = sqlx::query_scalar("SHOW statement_timeout").fetch_one(client.pool()).await.unwrap();
        assert_eq!(limit, "200ms", "the limit ends with the change");
    }
}

/// A client whose statements may take 0.2 s.
async fn impatient(database: &Database) -> Client {
    database.client_with(2, |options| options.options([("statement_timeout", "200ms")])).await
}

#[support::test]
async fn a_job_that_left_the_filters_states_meanwhile_is_left_alone(database: Database) {
    let client = database.client.clone();
    let mut ids = Vec::new();
    for _ in 0..6 {
        let id = client.insert(job("a").scheduled_in(MINUTE)).await.unwrap().id();
        database.set_state(id, "retryable").await;
        ids.push(id);
    }
    let filter = || JobFilter::new().states(JobState::Retryable);
    let past = OffsetDateTime::UNIX_EPOCH;
    for (n, id) in ids.into_iter().enumerate() {
        // A worker's fetch that has not committed yet.
        let start = "UPDATE {schema}.job SET state = 'running', worker = gen_random_uuid() WHERE state = 'retryable'";
        let open = database.begin(start).await;
        let client = client.clone();
        let changing = tokio::spawn(async move {
            match n {
                0 => client.cancel(filter()).await,
                1 => client.retry(filter()).await,
                2 => client.reschedule(filter(), past).await,
                3 => client.set_priority(filter(), 9).await,
                4 => client.release(filter()).await,
                _ => client.delete(filter()).await,
            }
        });
        // It waits for the lock, or has set the job aside and looks again and again.
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND (wait_event_type = 'Lock' OR query LIKE '%SKIP LOCKED%') AND pid <> pg_backend_pid()";
        // A release changes no retryable jobs, so it does not wait.
        eventually!(n == 4 || database.number(waiting).await > 0, "the change does not wait");
        open.commit().await.unwrap();
        assert_eq!(timeout(WAIT, changing).await.unwrap().unwrap().unwrap(), []);
        let row = database.client.job(id).await.unwrap().unwrap();
        assert_eq!((row.state, row.priority), (JobState::Running, 0));
        database.execute(&format!("UPDATE {{schema}}.job SET state = 'retryable' WHERE id <= '{id}'")).await;
    }
}

#[support::test]
async fn a_job_that_came_back_is_not_deleted_as_one_that_was_final_long_ago(database: Database) {
    let client = database.client.clone();
    let old = client.insert(job("a")).await.unwrap().id();
    let other = client.insert(job("a")).await.unwrap().id();
    database.execute("UPDATE {schema}.job SET state = 'completed', finalized_at = now() - interval '8 days'").await;
    // An operator's retry that has not committed yet.
    let mut open = database.pool().begin().await.unwrap();
    client.retry(old).tx(&mut open).await.unwrap();
    let week_ago = OffsetDateTime::now_utc() - Duration::from_secs(7 * 86_400);
    let deleting = tokio::spawn(async move { client.delete(JobFilter::new().finalized_before(week_ago)).await });
    database.until("SELECT count(*) FROM {schema}.job", 1).await;
    open.commit().await.unwrap();
    assert_eq!(timeout(WAIT, deleting).await.unwrap().unwrap().unwrap(), [other]);
    assert_eq!(database.client.job(old).await.unwrap().unwrap().state, JobState::Available);
}

#[support::test]
async fn a_change_by_filter_is_one_transaction_where_the_caller_has_one_and_keeps_to_its_limit(database: Database) {
    let client = &database.client;
    let jobs = client.insert_many((0..1200).map(|_| job("a"))).await.unwrap();
    let mut ids: Vec<_> = jobs.iter().map(|job| job.id()).collect();
    ids.sort_unstable();
    let mut tx = database.pool().begin().await.unwrap();
    assert_eq!(client.delete(JobFilter::all()).tx(&mut tx).await.unwrap().len(), 1200);
    tx.rollback().await.unwrap();
    let mut cancelled = client.cancel(JobFilter::new().kind("a").limit(1100)).await.unwrap();
    cancelled.sort_unstable();
    assert_eq!(cancelled, ids[..1100]);
    // Those that are in no state for it do not count against the limit.
    let rescheduled = client.set_priority(JobFilter::all().limit(50), 2).await.unwrap();
    assert_eq!(rescheduled.len(), 50);
    assert_eq!(client.retry(JobFilter::new().states(JobState::Cancelled)).await.unwrap().len(), 1100);
    assert_eq!(client.retry(ids.as_slice()).await.unwrap(), []);
}

#[support::test]
async fn a_priority_can_be_changed_while_a_job_waits(database: Database, client: &Client) {
    let mut ids = Vec::new();
    for state in JobState::ALL {
        let id = client.insert(job("a")).await.unwrap().id();
        database.set_state(id, state.as_str()).await;
        ids.push((id, state));
    }
    let changed = client.set_priority(ids.iter().map(|(id, _)| *id), -5).await.unwrap();
    for (id, state) in ids {
        let waits =
            matches!(state, JobState::Available | JobState::Pending | JobState::Retryable | JobState::Scheduled);
        assert_eq!(changed.contains(&id), waits, "{state}");
        let row = client.job(id).await.unwrap().unwrap();
        assert_eq!((row.state, row.priority), (state, if waits { -5 } else { 0 }));
    }
}

#[support::test]
async fn what_has_an_index_is_found_by_it(database: Database) {
    let jobs = "INSERT INTO {schema}.job (id, kind, queue, unique_key, unique_states)
        SELECT gen_random_uuid(), 'a', 'q' || n % 10, 'k' || n, 255 FROM generate_series(1, 20000) AS n";
    database.execute(jobs).await;
    database.execute("UPDATE {schema}.job SET state = 'completed', finalized_at = now() WHERE queue <> 'q1'").await;
    database.execute("UPDATE {schema}.job SET state = 'scheduled' WHERE right(unique_key, 3) = '001'").await;
    database.execute("UPDATE {schema}.job SET state = 'discarded' WHERE right(unique_key, 3) = '999'").await;
    database.execute("VACUUM ANALYZE {schema}.job").await;
    let statements = database.client.statements_text();
    let (first, last) = (uuid::Uuid::from_u128(1 << 120), uuid::Uuid::from_u128(2 << 120));
    for (name, states, queue, filter, index) in [
        ("count_matching", Some(vec!["available"]), Some(vec!["q2"]), json!({}), "job_fetch"),
        ("count_matching", Some(vec!["available"]), Some(vec!["q2", "q3"]), json!({}), "job_fetch"),
        ("count_matching", Some(vec!["running"]), Some(vec!["q2", "q3"]), json!({}), "job_running"),
        ("count_matching", Some(vec!["running"]), None, json!({}), "job_running"),
        ("count_matching", Some(vec!["scheduled"]), None, json!({}), "job_waiting"),
        (
            "count_matching",
            Some(vec!["scheduled"]),
            None,
            json!({"scheduled_before": "2020-01-01T00:00:00Z"}),
            "job_waiting",
        ),
        ("list_newest", None, None, json!({"unique_key": "k7"}), "job_unique_key"),
        ("list_newest", Some(vec!["discarded"]), None, json!({}), "job_discarded"),
        ("matching_ids", Some(vec!["discarded"]), None, json!({}), "job_discarded"),
        ("list_newest", None, None, json!({}), "job_pkey"),
        ("list_newest", None, None, json!({"after": last, "id_at_least": first}), "job_pkey"),
        ("list_oldest", Some(vec!["completed"]), Some(vec!["q3"]), json!({}), "job_pkey"),
        ("list_oldest", None, None, json!({"oldest_first": true, "after": first, "id_at_most": last}), "job_pkey"),
        ("matching_ids", None, None, json!({}), "job_pkey"),
    ] {
        let (_, text) = statements.iter().find(|(known, _)| *known == name).unwrap();
        let explain = database.sql(&format!("EXPLAIN {text}"));
        let query = sqlx::query(explain).persistent(false).bind(states).bind(queue).bind(None::<Vec<&str>>);
        let query = query.bind(None::<Vec<uuid::Uuid>>).bind(&filter);
        let query = match name {
            "matching_ids" => query.bind(uuid::Uuid::nil()).bind(uuid::Uuid::max()).bind(100_i64),
            _ => query.bind(100_i64),
        };
        let plan: Vec<String> = query.fetch_all(database.pool()).await.unwrap().iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains(index), "{name}:\n{plan}");
        let bounded = plan.lines().find(|line| line.contains("Index Cond")).unwrap_or_default();
        for bound in ["after", "id_at_most", "id_at_least"].into_iter().filter(|bound| filter.get(bound).is_some()) {
            let id = filter[bound].as_str().unwrap();
            assert!(bounded.contains(id), "{name}, {bound}:\n{plan}");
        }
    }
}

#[support::test]
async fn a_change_without_an_actor_is_logged_once_a_call_as_anonymous(database: Database, client: &Client) {
    let id = client.insert(job("a")).await.unwrap().id();
    client.insert_many((0..1_500).map(|_| job("b"))).await.unwrap();
    client.insert(job("c").unique_key(UniqueKey::raw("k"))).await.unwrap();
    client.set_priority(id, 3).await.unwrap();
    client.reschedule(id, OffsetDateTime::now_utc()).await.unwrap();
    client.cancel(id).await.unwrap();
    client.cancel(id).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    client.retry(id).tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    client.discard(JobFilter::new().kind("b")).await.unwrap();
    client.delete(JobFilter::new().kind("b")).actor("ada").await.unwrap();
    client.release_claim("k").await.unwrap();
    let log = Admin::new(client).change_log().await.unwrap();
    let log: Vec<_> = log.iter().map(|one| (one.actor.as_str(), one.verb.as_str(), one.jobs)).rev().collect();
    let nobody = "anonymous";
    let changes = [
        (nobody, "set_priority", Some(1)),
        (nobody, "reschedule", Some(1)),
        (nobody, "cancel", Some(1)),
        (nobody, "retry", Some(1)),
        (nobody, "discard", Some(1_500)),
        ("ada", "delete", Some(1_500)),
        (nobody, "release_claim", None),
    ];
    assert_eq!(log, changes, "what changed nothing is not there");
}
