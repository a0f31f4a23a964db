//! R13: no stream of updates keeps a key from its run, and a holder of another kind stays as it is.

use support::prelude::*;

fn updating(kind: &str) -> NewJob {
    NewJob::new(kind, &json!({"n": 1})).unique_key(UniqueKey::raw("k").on_conflict(OnConflict::Update))
}

#[support::test]
async fn r13_a_holder_that_is_overdue_gives_up_its_claim_to_the_newcomer(database: Database, client: &Client) {
    for state in ["available", "scheduled", "retryable"] {
        database.execute("DELETE FROM {schema}.job").await;
        let holder = client.insert(updating("a").scheduled_in(WAIT)).await.unwrap().id();
        database.set_state(holder, state).await;
        assert!(client.insert(updating("a")).await.unwrap().updated, "{state}");
        database.execute("UPDATE {schema}.job SET scheduled_at = now() - interval '2 s'").await;
        assert_eq!(client.explain(updating("a")).await.unwrap().outcome.as_str(), "inserted");
        let newcomer = client.insert(updating("a").scheduled_in(WAIT)).await.unwrap();
        assert!(!newcomer.duplicate && newcomer.replaced.is_none() && newcomer.job.claims, "{state}");
        let holder = client.job(holder).await.unwrap().unwrap();
        assert_eq!((holder.state.as_str(), holder.claims, holder.updates), (state, false, 1));
        assert_eq!(client.insert(updating("a")).await.unwrap().id(), newcomer.id());
    }
    // A job that waits for its release is due at no time.
    database.execute("DELETE FROM {schema}.job").await;
    client.insert(updating("a").pending()).await.unwrap();
    database.pass(MINUTE).await;
    assert!(client.insert(updating("a")).await.unwrap().updated);
}

#[support::test]
async fn r13_a_holder_past_the_longest_delay_gives_up_its_claim(database: Database, client: &Client) {
    let pushing = || {
        let key = UniqueKey::raw("k").update(Update::latest().push(MINUTE));
        NewJob::new("a", &json!({"n": 1})).unique_key(key)
    };
    // Its own policy pushes nothing.
    let holder = client.insert(updating("a").scheduled_in(60 * WAIT)).await.unwrap().id();
    assert!(client.insert(pushing()).await.unwrap().updated);
    database.execute("UPDATE {schema}.job SET created_at = now() - interval '62 s'").await;
    assert!(!client.insert(pushing()).await.unwrap().duplicate);
    assert!(!client.job(holder).await.unwrap().unwrap().claims);
}

#[tokio::test]
async fn r13_clients_that_update_without_pause_do_not_keep_a_key_from_its_start() {
    assert_first_start(3, Duration::ZERO).await;
    assert_first_start(20, Duration::from_millis(20)).await;
}

/// Clients update one key until its first job has started, while runners have nothing else to do.
async fn assert_first_start(clients: u32, pause: Duration) {
    let database = Database::with_connections(clients + 12).await;
    let client = &database.client;
    let max_delay = Duration::from_secs(1);
    let event = move || {
        let key = UniqueKey::raw("k").update(Update::latest().push(max_delay));
        NewJob::from(Task { n: 1 }).unique_key(key).scheduled_in(Duration::from_millis(500))
    };
    let first = client.insert(event()).await.unwrap().id();
    let mut runners = Vec::new();
    for _ in 0..2 {
        runners.push(quick(client).worker(|_: RunningJob<Task>| std::future::ready(())).start().await.unwrap());
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (client, is_over) = (client.clone(), Arc::clone(&is_over));
        tasks.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                client.insert(event()).await.unwrap();
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
            }
        });
    }
    let started = format!("SELECT count(*) FROM {{schema}}.job WHERE id = '{first}' AND attempted_at IS NOT NULL");
    database.until(&started, 1).await;
    is_over.store(true, Ordering::Relaxed);
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    let waited = format!(
        "SELECT extract(milliseconds FROM attempted_at - created_at)::bigint FROM {{schema}}.job WHERE id = '{first}'"
    );
    let waited = database.number(&waited).await;
    eprintln!("{clients} clients: started after {waited} ms");
    // A second of delay, another of being overdue, and what a busy machine adds.
    assert!(waited < 6_000, "{clients} clients: started after {waited} ms");
    for runner in runners {
        runner.stop().await.unwrap();
    }
}

#[support::test]
async fn r13_a_holder_of_another_kind_is_never_changed(database: Database, client: &Client) {
    let holder = client.insert(updating("a").pending()).await.unwrap().id();
    let named = format!("update: the unique key is held by job {holder} of kind \"a\", not of kind \"b\"");
    for due in ["now() + interval '1 h'", "now() - interval '1 h'"] {
        database.execute(&format!("UPDATE {{schema}}.job SET scheduled_at = {due}")).await;
        for state in ["pending", "available"] {
            database.set_state(holder, state).await;
            let batch = [NewJob::new("plain", &json!({})), updating("b"), updating("b")];
            let policy = r#"{"key": "k", "scope": "queued", "on_conflict": "update"}"#;
            let sql = format!("SELECT count(*) FROM {{schema}}.insert_job('b', unique_policy => '{policy}')");
            let refused = [
                client.insert(updating("b")).await.unwrap_err(),
                client.insert_many(batch).await.unwrap_err(),
                client.explain(updating("b")).await.unwrap_err(),
                sqlx::query(database.sql(&sql)).fetch_one(database.pool()).await.unwrap_err().into(),
            ];
            assert!(refused.iter().all(|error| error.to_string().contains(&named)), "{refused:?}");
        }
    }
    let row = client.job(holder).await.unwrap().unwrap();
    assert_eq!((row.claims, row.updates, row.kind.as_str()), (true, 0, "a"));
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 1);
}

/// Roles that insert may call it with anything.
#[support::test]
async fn r13_a_batch_of_updates_meets_another_kind_or_id_as_its_updates_one_by_one(database: Database) {
    let client = &database.client;
    let error = client.insert_many([updating("a"), updating("a"), updating("b")]).await.unwrap_err().to_string();
    assert!(error.contains("of kind \"a\", not of kind \"b\""), "{error}");
    let other = client.insert(NewJob::new("other", &json!({}))).await.unwrap().id();
    let error = client.insert_many([updating("a"), updating("a"), updating("a").id(other)]).await.unwrap_err();
    assert!(error.to_string().contains(&other.to_string()), "{error}");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 1);
}

#[support::test]
async fn r13_an_update_by_hand_takes_neither_attempts_nor_times_that_no_client_can_read(database: Database) {
    let client = &database.client;
    let holder = client.insert(updating("a").scheduled_in(WAIT)).await.unwrap().id();
    let run = |at: &str, max_attempts: i16| {
        format!(
            "SELECT count(*) FROM (SELECT * FROM {{schema}}._update_holder('{holder}', ARRAY[jsonb_populate_record(
                NULL::{{schema}}.new_job, '{{\"id\": \"{holder}\", \"kind\": \"a\", \"args\": {{}}, \"scheduled_at\": \"{at}\",
                \"max_attempts\": {max_attempts}, \"on_conflict\": \"update\",
                \"changes\": {{\"args\": \"latest\", \"max_delay\": \"9000000000000 s\", \"max_items\": 1}}}}')])) AS u"
        )
    };
    for (at, max_attempts, problem) in [
        ("2026-01-01Z", 0, "invalid max_attempts: must be at least 1: 0"),
        ("287225-01-01Z", 1, "invalid scheduled_at: must be in the years 1 to 9000"),
    ] {
        let call = run(at, max_attempts);
        let error = sqlx::query(database.sql(&call)).fetch_one(database.pool()).await.unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    assert_eq!(client.job(holder).await.unwrap().unwrap().updates, 0);
}

#[support::test(with_connections(1))]
async fn r13_a_batch_of_many_updates_writes_the_holder_once(database: Database, client: &Client) {
    let append = |n: usize| {
        let key = UniqueKey::raw("k").update(Update::append().max_items(10_000));
        NewJob::new("a", &json!({"i": [n], "same": 1})).unique_key(key).pending()
    };
    let mut tx = database.pool().begin().await.unwrap();
    let written = database.sql(
        "SELECT pg_stat_get_xact_tuples_inserted(j) + pg_stat_get_xact_tuples_updated(j)
        FROM (SELECT '{schema}.job'::regclass AS j) AS job",
    );
    // Of earlier transactions of the session, too.
    let before: i64 = sqlx::query_scalar(written.clone()).fetch_one(&mut *tx).await.unwrap();
    let answers = client.insert_many((0..2_000).map(append)).tx(&mut tx).await.unwrap();
    assert!(answers[1..].iter().all(|answer| answer.updated && answer.id() == answers[0].id()));
    let row = &answers[1_999].job;
    let expected = json!({"i": (0..2_000).collect::<Vec<_>>(), "same": 1});
    assert_eq!(serde_json::from_str::<serde_json::Value>(row.args.get()).unwrap(), expected);
    assert_eq!((row.updates, row.updated_by.is_some()), (1_999, true));
    assert_eq!(sqlx::query_scalar::<_, i64>(written).fetch_one(&mut *tx).await.unwrap() - before, 1);
    tx.rollback().await.unwrap();
}

/// A batch folds what fits at once, and means what its updates one after another mean.
#[support::test]
async fn r13_a_batch_of_updates_fills_holders_as_its_updates_one_by_one(database: Database, client: &Client) {
    let given = [
        json!({"i": [1], "x": 1}),
        json!({"i": [2, 3], "x": 1}),
        json!({"j": [1]}),
        json!({"i": [], "x": 1}),
        json!({"i": [4, 5, 6]}),
        json!({"i": [7], "x": 2}),
        json!({"i": [8, 9]}),
        json!({"i": [10], "new": null}),
    ];
    for update in [Update::latest(), Update::merge(), Update::append().max_items(4)] {
        let of = |key: &str| {
            let key = key.to_owned();
            given.iter().map(move |args| {
                NewJob::new("a", args).unique_key(UniqueKey::raw(key.clone()).update(update)).pending()
            })
        };
        database.execute("DELETE FROM {schema}.job").await;
        for job in of("one") {
            client.insert(job).await.unwrap();
        }
        client.insert_many(of("many")).await.unwrap();
        let made = |key: &str| {
            format!(
                "SELECT string_agg(concat_ws(' ', args, claims, updates), '; ' ORDER BY created_at, id)
                FROM {{schema}}.job WHERE unique_key = '{key}'"
            )
        };
        assert_eq!(database.text(&made("many")).await, database.text(&made("one")).await);
    }
    let misfit = [json!({"i": [1]}), json!({"i": [2]}), json!({"i": 3})];
    let misfit = misfit
        .map(|args| NewJob::new("a", &args).unique_key(UniqueKey::raw("misfit").update(Update::append())).pending());
    let error = client.insert_many(misfit).await.unwrap_err().to_string();
    assert!(error.contains("append needs an array in both jobs: \"i\""), "{error}");
}
