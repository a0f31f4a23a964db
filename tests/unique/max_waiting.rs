//! A limit of waiting jobs: inserts beyond it are refused, and nothing that was accepted is.

use uniqueue::Result;

use support::prelude::*;

const AVAILABLE: &str = "SELECT count(*) FROM {schema}.job WHERE state = 'available'";
const TRIGGERS: &str = "SELECT count(*) FROM pg_trigger
    WHERE tgrelid = '{schema}.job'::regclass AND tgname = 'job_max_waiting'";

async fn limited(limit: u32) -> Database {
    limited_over(5, limit).await
}

async fn limited_over(connections: u32, limit: u32) -> Database {
    let database = Database::with_connections(connections).await;
    database.client.queue("default").set(QueueChanges::new().max_waiting(Some(limit))).await.unwrap();
    database
}

fn room<T: std::fmt::Debug>(refused: Result<T>) -> u32 {
    match refused {
        Err(Error::QueueFull { queue, room, .. }) if queue == "default" => room,
        other => panic!("{other:?}"),
    }
}

#[support::test(self::limited(3))]
async fn an_insert_beyond_the_limit_is_refused_with_the_queue_the_limit_and_the_room(database: Database) {
    let client = &database.client;
    client.insert_many([job("a"), job("b")]).await.unwrap();
    assert_eq!(room(client.insert_many([job("c"), job("d"), job("e")]).await), 1);
    assert_eq!(database.number(AVAILABLE).await, 2, "all or nothing");
    client.insert(job("c")).await.unwrap();
    let error = client.insert(job("d")).await.unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(
        error.to_string(),
        "queue default is full: at most 3 of its jobs may wait, and it has room for 0; hint: try again later, let more \
         runners work the queue, or raise its limit (`uniqueue queue max-waiting default N`)"
    );
    assert_eq!(database.number(AVAILABLE).await, 3);
    // Other queues have no limit, and jobs with a group count like others.
    client.insert_many((0..10).map(|_| job("a").queue("other"))).await.unwrap();
    assert_eq!(room(client.insert(job("g").group("g")).await), 0);
    client.queue("default").set(QueueChanges::new().max_waiting(Some(4))).await.unwrap();
    client.insert(job("g").group("g")).await.unwrap();
    assert_eq!(room(client.insert(job("h")).await), 0);
    client.queue("default").set(QueueChanges::new().max_waiting(None)).await.unwrap();
    client.insert_many((0..10).map(|_| job("a"))).await.unwrap();
}

#[support::test(self::limited(1))]
async fn only_available_jobs_count(database: Database, client: &Client) {
    client.insert(job("a")).await.unwrap();
    client.insert_many((0..5).map(|_| job("later").scheduled_in(HOUR))).await.unwrap();
    client.insert(job("held").pending()).await.unwrap();
    assert_eq!(room(client.insert(job("past").scheduled_in(Duration::ZERO)).await), 0);
    // A running job does not wait.
    database.execute("UPDATE {schema}.job SET state = 'running', worker = id WHERE state = 'available'").await;
    client.insert(job("b")).await.unwrap();
}

#[support::test(self::limited(1))]
async fn a_duplicate_is_answered_by_a_full_queue_as_ever(database: Database, client: &Client) {
    let keyed = |conflict| job("a").unique_key(UniqueKey::raw("k").on_conflict(conflict));
    let holder = client.insert(keyed(OnConflict::Ignore)).await.unwrap();
    assert_eq!(client.insert(keyed(OnConflict::Ignore)).await.unwrap().id(), holder.id());
    assert!(client.insert(keyed(OnConflict::Update)).await.unwrap().updated);
    assert!(client.insert(keyed(OnConflict::Reject)).await.unwrap_err().is_duplicate());
    // One goes and one comes.
    assert!(client.insert(keyed(OnConflict::Replace)).await.unwrap().replaced.is_some());
    let other = job("a").unique_key(UniqueKey::raw("other"));
    assert_eq!(room(client.insert(other.clone()).await), 0);
    assert_eq!(room(client.insert(other).max_wait(WAIT).await), 0);
    assert_eq!(database.number(AVAILABLE).await, 1);
}

#[support::test(self::limited(1))]
async fn the_limit_holds_in_transactions_and_a_savepoint_saves_the_transaction(database: Database, client: &Client) {
    let mut tx = client.pool().begin().await.unwrap();
    client.insert(job("a")).tx(&mut tx).await.unwrap();
    let mut savepoint = tx.begin().await.unwrap();
    assert_eq!(room(client.insert(job("b")).tx(&mut savepoint).await), 0);
    savepoint.rollback().await.unwrap();
    client.insert(job("c").queue("other")).tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 2);
}

#[support::test(self::limited(1))]
async fn the_limit_holds_in_sql_with_a_code_and_a_detail(database: Database) {
    database.client.insert(job("a")).await.unwrap();
    for statement in [
        "SELECT * FROM {schema}.insert_job('b')",
        "SELECT * FROM {schema}.insert_job('b', unique_policy => '{}')",
        "SELECT * FROM {schema}.insert_job('b', unique_policy => '{\"on_conflict\": \"reject\"}')",
        r#"SELECT * FROM {schema}.insert_jobs('[{"kind": "b", "queue": "other"}, {"kind": "b"}]')"#,
        "INSERT INTO {schema}.job (id, kind) VALUES (gen_random_uuid(), 'b')",
    ] {
        let error = sqlx::query(database.sql(statement)).execute(database.pool()).await.unwrap_err();
        let error = error.as_database_error().unwrap();
        assert_eq!(error.code().as_deref(), Some("UQ003"), "{statement}: {error}");
        let error = error.downcast_ref::<sqlx::postgres::PgDatabaseError>();
        assert_eq!(
            error.message(),
            "queue \"default\" is full: at most 1 of its jobs may wait, and it has room for 0 of 1 new ones"
        );
        assert_eq!(error.detail(), Some(r#"{"queue" : "default", "max_waiting" : 1, "room" : 0}"#));
        assert!(error.hint().unwrap().contains("set_queue"));
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 1);
    // Of a service that must not be refused.
    let mut tx = database.pool().begin().await.unwrap();
    sqlx::query("SET LOCAL uniqueue.ignore_max_waiting = on").execute(&mut *tx).await.unwrap();
    database.client.insert(job("b")).tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(room(database.client.insert(job("c")).await), 0);
}

#[support::test(self::limited(1))]
async fn what_was_accepted_is_never_refused(database: Database, client: &Client) {
    let later = client.insert(job("later").scheduled_in(HOUR)).await.unwrap().id();
    let pending = client.insert(job("held").pending()).await.unwrap().id();
    let failed = client.insert(job("failed").scheduled_in(HOUR)).await.unwrap().id();
    database.set_state(failed, "discarded").await;
    let slot = NewJob::from(Task { n: 1 });
    client.define_periodic(PeriodicJob::cron("slot", "* * * * * *", slot.queue("default"))).await.unwrap();
    client.insert(job("a")).await.unwrap();
    client.retry(failed).await.unwrap();
    client.release(pending).await.unwrap();
    client.retry(later).await.unwrap();
    assert_eq!(database.number(AVAILABLE).await, 4);
    assert_eq!(room(client.insert(job("b")).await), 0);
    // A run by hand has a caller, who receives the error.
    assert_eq!(room(Admin::new(client).periodic().run_now("slot").await), 0);
    // The jobs of another queue that the runner works; it has maintenance.
    let runner = Runner::new(client.clone()).queue("other", 1).worker(|_: RunningJob<Task>| async {});
    let runner = runner.start().await.unwrap();
    database.until("SELECT least(1, count(*)) FROM {schema}.job WHERE kind = 'task'", 1).await;
    runner.stop().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.periodic WHERE problem IS NOT NULL").await, 0);
}

#[tokio::test]
async fn a_refused_insert_does_not_fail_those_that_share_its_statement() {
    // Over one connection. On a busy machine two statements could be open at once, and neither counts the other's jobs.
    let database = limited_over(1, 10).await;
    let client = &database.client;
    client.insert(job("warm").queue("other")).await.unwrap();
    let jobs = (0..120).map(|n| match n % 4 {
        0 => job("plain"),
        1 => job("other").queue("other"),
        2 => job("later").scheduled_in(HOUR),
        _ => job("keyed").unique_key(UniqueKey::raw(["x", "y"][n % 8 / 4])),
    });
    let mut inserts = JoinSet::new();
    for job in jobs {
        let client = client.clone();
        inserts.spawn(async move {
            let kind = job.kind().to_owned();
            (kind, client.insert(job).await)
        });
    }
    let (answers, statements) = counting_statements(inserts.join_all()).await;
    let count = |wanted: &str, is_ok: bool| {
        answers.iter().filter(|(kind, answer)| kind == wanted && answer.is_ok() == is_ok).count()
    };
    assert!(answers.iter().all(|(_, answer)| matches!(answer, Ok(_) | Err(Error::QueueFull { .. }))));
    assert_eq!((count("other", true), count("later", true)), (30, 30));
    let keyed = database.number("SELECT count(*) FROM {schema}.job WHERE kind = 'keyed'").await;
    assert_eq!(count("plain", true) as i64 + keyed, 10);
    // A key that was inserted answers its duplicates. One that was not has no holder.
    assert!(count("keyed", true) as i64 >= keyed);
    assert!(statements < 110, "{statements} statements");
    assert_eq!(
        database.number("SELECT count(*) FROM {schema}.job WHERE queue = 'default' AND state = 'available'").await,
        10
    );
}

#[tokio::test]
async fn a_full_queue_costs_a_crowd_of_refused_inserts_few_statements() {
    let database = limited(5).await;
    let client = &database.client;
    client.insert(job("warm").queue("other")).await.unwrap();
    let mut inserts = JoinSet::new();
    for _ in 0..200 {
        let client = client.clone();
        inserts.spawn(async move { client.insert(job("a")).await });
    }
    let (answers, statements) = counting_statements(inserts.join_all()).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 5);
    assert!(answers.into_iter().filter(Result::is_err).all(|refused| room(refused) == 0));
    assert!(statements <= 8, "{statements} statements");
}

#[tokio::test]
async fn concurrent_inserters_exceed_the_limit_by_no_more_than_what_was_open_at_once() {
    const INSERTERS: usize = 8;
    const LIMIT: i64 = 40;
    let database = limited(LIMIT as u32).await;
    let mut inserters = JoinSet::new();
    for _ in 0..INSERTERS {
        let client = database.client_over(database.another_pool(1).await);
        inserters.spawn(async move {
            let mut refused = 0;
            for _ in 0..soak(40, 400) {
                match client.insert(job("a")).await {
                    Ok(_) => {}
                    Err(Error::QueueFull { .. }) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            refused
        });
    }
    let refused: usize = inserters.join_all().await.into_iter().sum();
    let waiting = database.number(AVAILABLE).await;
    assert!((LIMIT..LIMIT + INSERTERS as i64).contains(&waiting), "{waiting}");
    assert_eq!(refused as i64 + waiting, (INSERTERS * soak(40, 400)) as i64);
    assert_eq!(room(database.client.insert(job("a")).await), 0);
}

#[support::test]
async fn without_a_limit_nothing_counts_and_the_last_limit_takes_its_trigger_along(database: Database) {
    let client = &database.client;
    assert_eq!(database.number(TRIGGERS).await, 0);
    client.queue("a").pause().await.unwrap();
    client.queue("a").limit(Some(3)).await.unwrap();
    assert_eq!(database.number(TRIGGERS).await, 0);
    let settings = client.queue("a").set(QueueChanges::new().max_waiting(Some(10))).await.unwrap();
    assert_eq!((settings.max_waiting, settings.limit), (Some(10), Some(3)));
    client.queue("b").set(QueueChanges::new().max_waiting(Some(10))).await.unwrap();
    client.queue("a").set(QueueChanges::new().max_waiting(Some(20))).await.unwrap();
    assert_eq!(database.number(TRIGGERS).await, 1);
    client.queue("a").set(QueueChanges::new().max_waiting(None)).await.unwrap();
    assert_eq!(database.number(TRIGGERS).await, 1);
    client.queue("b").remove().await.unwrap();
    assert_eq!(database.number(TRIGGERS).await, 0);
    // By hand it is the same.
    database.execute("UPDATE {schema}.queue SET max_waiting = 1").await;
    assert_eq!(database.number(TRIGGERS).await, 1);
    database.execute("DELETE FROM {schema}.queue").await;
    assert_eq!(database.number(TRIGGERS).await, 0);
    let mut tx = client.pool().begin().await.unwrap();
    client.queue("a").set(QueueChanges::new().max_waiting(Some(10))).tx(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!((database.number(TRIGGERS).await, client.queue("a").settings().await.unwrap().max_waiting), (0, None));
}

#[support::test(with_connections(6))]
async fn limits_that_come_and_go_at_once_leave_the_trigger_exactly_where_it_is_needed(database: Database) {
    let mut changes = JoinSet::new();
    for n in 0..4 {
        let client = database.client.clone();
        changes.spawn(async move {
            let name = format!("q{n}");
            for round in 0..soak(6, 40) {
                client.queue(&name).set(QueueChanges::new().max_waiting((round % 2 == 0).then_some(5))).await.unwrap();
            }
            // The first queue keeps its limit.
            client.queue(&name).set(QueueChanges::new().max_waiting((n == 0).then_some(5))).await.unwrap();
        });
    }
    changes.join_all().await;
    assert_eq!(database.number(TRIGGERS).await, 1);
    database.client.queue("q0").set(QueueChanges::new().max_waiting(None)).await.unwrap();
    assert_eq!(database.number(TRIGGERS).await, 0);
}

#[support::test(with_connections(4))]
async fn the_first_limit_waits_for_open_writers_and_not_for_ever(database: Database) {
    let client = database.client.clone();
    let mut writer = client.pool().begin().await.unwrap();
    client.insert(job("a")).tx(&mut writer).await.unwrap();
    let error = client.queue("default").set(QueueChanges::new().max_waiting(Some(1))).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(error.to_string().contains("cannot set max_waiting of a queue while other transactions write"), "{error}");
    assert_eq!(client.queue("default").settings().await.unwrap().max_waiting, None);

    let of_limit = client.clone();
    let limit =
        tokio::spawn(async move { of_limit.queue("default").set(QueueChanges::new().max_waiting(Some(1))).await });
    database.until_waits_for("job").await;
    // Inserts wait behind it only for a moment.
    client.insert(job("b").queue("other")).await.unwrap();
    writer.commit().await.unwrap();
    assert_eq!(limit.await.unwrap().unwrap().max_waiting, Some(1));
    assert_eq!(room(client.insert(job("c")).await), 0);
}

#[support::test]
async fn a_limit_below_one_is_refused(database: Database) {
    for limit in [0, u32::MAX] {
        let error =
            database.client.queue("default").set(QueueChanges::new().max_waiting(Some(limit))).await.unwrap_err();
        let said = format!("invalid max_waiting: must be 1 to 2147483647; for no limit give null: {limit}");
        assert_eq!(error.to_string(), said);
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.queue").await, 0);
}

#[support::test(self::limited(7))]
async fn the_limit_is_shown_with_the_queue(database: Database) {
    database.client.insert(job("a")).await.unwrap();
    let queues = Admin::new(&database.client).queues().await.unwrap();
    assert_eq!(queues[0].settings.max_waiting, Some(7));
    let shown = "SELECT concat_ws(' ', queue, available, max_waiting) FROM {schema}.queue_status";
    assert_eq!(database.text(shown).await, "default 1 7");
    assert_eq!(
        database.client.count_jobs(JobFilter::all().states(JobState::Available), 10).await.unwrap().counted(),
        1
    );
}
