//! Changing jobs and queues in SQL: the client's statements are calls of these functions, so what the tests of the
//! client prove of them holds here. The tests here check the messages of the functions.

use super::told;
use support::prelude::*;

#[support::test]
async fn the_client_s_statements_are_calls_of_the_functions(database: Database) {
    // The client cancels a graph in batches, with cancel_jobs, as cancel_graph does at once. It retries several graphs at once.
    let functions = "SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc
        WHERE pronamespace = '{schema}'::regnamespace AND provolatile = 'v' AND proretset AND NOT prosecdef
            AND proname !~ '(queue|group)$'
            AND proname NOT IN ('cancel_graph', 'retry_graph') AND NOT starts_with(proname, '_')
            AND (prosqlbody IS NOT NULL OR proname IN ('delete_jobs', 'retry_jobs'))";
    let functions = database.text(functions).await;
    assert_eq!(functions, "cancel_jobs delete_jobs discard_jobs release_jobs reschedule_jobs retry_jobs set_priority");
    let statements = database.client.statements_text();
    for function in functions.split(' ') {
        let (_, text) = statements.iter().find(|(name, _)| *name == function).expect(function);
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("--")).collect();
        let text = lines.join(" ");
        assert!(text.contains(&format!(".{function}($1")), "{text}");
        let changes = [" SET ", "INSERT ", "DELETE "];
        assert!(changes.iter().all(|change| !text.contains(change)), "{text}");
    }
}

#[support::test]
async fn a_change_answers_with_the_jobs_it_changed_and_the_state_they_are_in_since(database: Database) {
    let later = database.client.insert(job("a").scheduled_in(WAIT)).await.unwrap().id();
    database.set_state(later, "pending").await;
    let now = database.client.insert(job("b").pending()).await.unwrap().id();
    let done = database.client.insert(job("c")).await.unwrap().id();
    database.set_state(done, "completed").await;
    let ids = format!("ARRAY['{later}', '{now}', '{done}', '{}']::uuid[]", uuid::Uuid::nil());
    for (call, answer) in [
        ("release_jobs({ids}, ARRAY['available'])", ""),
        ("release_jobs({ids})", "a scheduled, b available"),
        ("reschedule_jobs({ids}, 'epoch', states => ARRAY['scheduled'])", "a available"),
        ("reschedule_jobs({ids}, '2100-01-01')", "a scheduled, b scheduled"),
        ("set_priority({ids}, 7)", "a scheduled, b scheduled"),
        ("retry_jobs({ids}, ARRAY['completed'])", "c available"),
        ("discard_jobs({ids}, '{scheduled}')", "a discarded, b discarded"),
        ("retry_jobs({ids}, '{discarded}')", "a available, b available"),
        ("cancel_jobs({ids}, '{running}')", ""),
        ("cancel_jobs({ids}, '{available}')", "a cancelled, b cancelled, c cancelled"),
        ("delete_jobs({ids})", "a cancelled, b cancelled, c cancelled"),
        ("delete_jobs({ids})", ""),
    ] {
        let call = call.replace("{ids}", &ids);
        let text = format!(
            "SELECT coalesce(string_agg(c.kind || ' ' || c.state, ', ' ORDER BY c.kind), '') FROM {{schema}}.{call} AS c"
        );
        assert_eq!(database.text(&text).await, answer, "{call}");
    }
}

#[support::test]
async fn runners_are_woken_and_told_as_by_the_client(database: Database) {
    let mut listener = database.listen(&["job", "control"]).await;
    let runner = database.idle_runner("q").await;
    let id = database.client.insert(job("a").pending()).queue("q").await.unwrap().id();
    let mut heard = async |call: String| {
        database.execute(&format!("SELECT * FROM {{schema}}.{call}")).await;
        let told = timeout(WAIT, listener.recv()).await.unwrap().unwrap();
        (told.channel().rsplit('.').next().unwrap().to_owned(), told.payload().to_owned())
    };
    let woken = ("job".to_owned(), "q".to_owned());
    assert_eq!(heard(format!("release_jobs(ARRAY['{id}'::uuid])")).await, woken);
    assert_eq!(heard(format!("reschedule_jobs(ARRAY['{id}'::uuid], now())")).await, woken);
    database.execute("SELECT * FROM {schema}.pause_queue('q')").await;
    assert_eq!(heard("resume_queue('q')".to_owned()).await, woken);
    for changes in [r#"{"limit": 3}"#, r#"{"rate": {"count": 3, "period": 1}}"#, r#"{"group_rate": null}"#] {
        assert_eq!(heard(format!("set_queue('q', '{changes}')")).await, woken);
    }
    database.execute("SELECT * FROM {schema}.hold_queue('q', '1 h')").await;
    assert_eq!(heard("resume_queue('q')".to_owned()).await, woken);
    database.execute("SELECT * FROM {schema}.hold_group('q', 'g', '1 h')").await;
    assert_eq!(heard("resume_group('q', 'g')".to_owned()).await, woken);
    database.execute(&format!("UPDATE {{schema}}.job SET state = 'running', worker = '{runner}'")).await;
    assert_eq!(heard(format!("cancel_jobs(ARRAY['{id}'::uuid])")).await, ("control".to_owned(), runner));
    assert_eq!(heard(format!("retry_jobs(ARRAY['{id}'::uuid])")).await, woken);
    assert_eq!(heard("insert_job('b', queue => 'q')".to_owned()).await, woken);
}

#[support::test]
async fn nobody_is_notified_where_the_queue_of_notifications_is_full(database: Database) {
    assert_eq!(database.text("SELECT {schema}._may_notify()::text").await, "true");
    let mut listener = database.listen(&["job", "control"]).await;
    let runner = database.idle_runner("q").await;
    database.fill_notify_queue().await;
    let id = database.client.insert(job("a")).queue("q").await.unwrap().id();
    database.client.insert_many((0..3).map(|_| job("b").queue("q"))).await.unwrap();
    database.execute("SELECT * FROM {schema}.insert_job('b', queue => 'q')").await;
    database.execute("SELECT * FROM {schema}.resume_queue('q')").await;
    let running = format!("UPDATE {{schema}}.job SET state = 'running', worker = '{runner}' WHERE id = '{id}'");
    database.execute(&running).await;
    database.execute(&format!("SELECT * FROM {{schema}}.cancel_jobs(ARRAY['{id}'::uuid])")).await;
    database.execute(&format!("SELECT * FROM {{schema}}.retry_jobs(ARRAY['{id}'::uuid])")).await;
    database.execute("SELECT pg_notify('{schema}.job', 'the end')").await;
    let heard = timeout(WAIT, listener.recv()).await.unwrap().unwrap();
    assert_eq!(heard.payload(), "the end");
}

#[support::test]
async fn an_argument_outside_its_limits_is_named(database: Database) {
    database.client.insert(job("a")).await.unwrap();
    let ids = "ARRAY(SELECT id FROM {schema}.job)";
    for (call, message) in [
        ("set_priority({ids}, 32768)", "invalid priority: must be -32768 to 32767: 32768"),
        ("set_priority({ids}, NULL)", "invalid priority: must be -32768 to 32767: null"),
        ("reschedule_jobs({ids}, NULL)", "invalid scheduled_at: must not be null"),
        (
            "reschedule_jobs({ids}, '9001-01-01 00:00:00+00')",
            "invalid scheduled_at: must be in the years 1 to 9000: 9001-01-01 00:00:00+00",
        ),
        ("pause_queue('')", "invalid queue: must not be empty: \"\""),
        ("pause_queue(NULL)", "invalid queue: must not be null"),
        ("set_queue(E'a\\nb', '{}')", "invalid queue: must not hold control characters: \"a\\nb\""),
        (r#"set_queue('a', '{"limt": 1}')"#, "unknown setting of a queue: \"limt\""),
        (
            r#"set_queue('a', '{"limit": 0}')"#,
            "invalid limit: must be 1 to 2147483647; to run nothing, pause the queue: 0",
        ),
        (
            r#"set_queue('a', '{"max_waiting": "7"}')"#,
            "invalid max_waiting: must be 1 to 2147483647; for no limit give null: \"7\"",
        ),
        (
            r#"set_queue('a', '{"group_limit": 1.5}')"#,
            "invalid group_limit: must be 1 to 2147483647; to run nothing, pause the queue: 1.5",
        ),
        (
            r#"set_queue('a', '{"rate": {"count": 0, "period": "soon"}}')"#,
            "invalid rate: count must be 1 to 1000000; to run nothing, pause the queue: 0",
        ),
        (
            r#"set_queue('a', '{"rate": {"period": 1}}')"#,
            "invalid rate: count must be 1 to 1000000; to run nothing, pause the queue: null",
        ),
        (r#"set_queue('a', '{"rate": {"count": 1, "period": 0}}')"#, "invalid rate: period must be 1 ms to 31 days: 0"),
        (r#"set_queue('a', '{"rate": {"count": 1}}')"#, "invalid rate: period must be 1 ms to 31 days: null"),
        (
            r#"set_queue('a', '{"rate": {"count": 1, "period": 0.0010005}}')"#,
            "invalid rate: period must be whole microseconds: 0.0010005",
        ),
        (
            r#"set_queue('a', '{"group_rate": {"count": 1, "period": "1 s", "burst": 1000001}}')"#,
            "invalid group_rate: burst must be 1 to 1000000: 1000001",
        ),
        ("hold_queue('a', '-1 s')", "invalid hold: must be 0 to 1000 years: -00:00:01"),
        ("hold_group('a', 'g', NULL)", "invalid hold: must be 0 to 1000 years: null"),
        ("hold_group('a', '', '1 s')", "invalid group: must be 1 to 512 bytes: 0"),
        (
            r#"set_queue('a', '{"keep_cancelled": "-1 hour"}')"#,
            "invalid keep_cancelled: must not be negative: \"-1 hour\"",
        ),
    ] {
        let text = format!("SELECT * FROM {{schema}}.{}", call.replace("{ids}", ids));
        let mut connection = database.pool().acquire().await.unwrap();
        sqlx::query("SET timezone = 'UTC'").execute(&mut *connection).await.unwrap();
        let error = sqlx::query(database.sql(&text)).execute(&mut *connection).await.unwrap_err();
        assert_eq!(told(&error), ("22023".to_owned(), message.to_owned(), String::new()), "{call}");
    }
    let long = format!("SELECT * FROM {{schema}}.pause_queue('{}')", "x".repeat(129));
    let error = sqlx::query(database.sql(&long)).execute(database.pool()).await.unwrap_err();
    assert!(told(&error).1.starts_with("invalid queue: must not be longer than 128 bytes: \"xxx"), "{error}");
    let unlimited = database.sql(r#"SELECT q.max_running FROM {schema}.set_queue('a', '{"limit": null}') AS q"#);
    let row = sqlx::query(unlimited).fetch_one(database.pool()).await.unwrap();
    assert_eq!(row.get::<Option<i32>, _>(0), None);
}
