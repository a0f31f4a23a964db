//! Jobs that no fetch can return.

use support::prelude::*;

#[support::test]
async fn jobs_that_cannot_be_read_are_discarded_and_hold_up_no_other(database: Database, client: &Client) {
    let inserted = client.insert_many((0..40).map(|n| Task { n })).await.unwrap();
    let damage = async |place: usize, column: &str| {
        let id = inserted[place].id();
        database.damage(id, column).await;
        id
    };
    let damaged_args = [damage(0, "args").await, damage(20, "args").await];
    let damaged_errors = damage(7, "errors").await;
    // A row that the database does not even change.
    let stuck = damage(30, "args").await;
    let refuse = "RAISE EXCEPTION USING ERRCODE = 'data_corrupted', MESSAGE = 'invalid page';";
    database.trigger("BEFORE UPDATE", &format!("NEW.id = '{stuck}'"), refuse).await;

    let runner = database.runner().queue("default", 100).poll_interval(Duration::from_millis(20)).worker(at_once);
    let runner = runner.start().await.unwrap();
    let completed = "SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1";
    database.until(completed, 36).await;
    // Later jobs come through at once.
    client.insert(Task { n: 40 }).await.unwrap();
    database.until(completed, 37).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'discarded'", 3).await;
    runner.stop().await.unwrap();

    let error = async |id| {
        let error = format!(
            "SELECT state || ' ' || jsonb_array_length(errors) || ' ' || (errors #>> '{{-1,error}}')
            FROM {{schema}}.job WHERE id = '{id}'"
        );
        database.text(&error).await
    };
    for id in damaged_args.into_iter().chain([damaged_errors]) {
        let error = error(id).await;
        assert!(error.starts_with("discarded 1 the job's row cannot be read: "), "{error}");
    }
    let left = format!("SELECT state || ' ' || attempt FROM {{schema}}.job WHERE id = '{stuck}'");
    assert_eq!(database.text(&left).await, format!("{} 0", JobState::Available));
}

#[support::test]
async fn a_job_that_cannot_be_read_is_found_behind_locked_ones(database: Database) {
    let inserted = database.client.insert_many((0..5).map(|n| Task { n })).await.unwrap();
    database.damage(inserted[3].id(), "args").await;
    // As many as a fetch takes.
    let locked = database.begin("SELECT id FROM {schema}.job ORDER BY scheduled_at, id LIMIT 3 FOR UPDATE").await;
    let runner = database.runner().queue("default", 3).poll_interval(Duration::from_millis(20)).worker(at_once);
    database.start(runner).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 1).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'discarded'", 1).await;
    locked.rollback().await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 4).await;
}

#[support::test]
async fn jobs_that_do_not_come_in_time_together_come_one_by_one(database: Database) {
    database.client.insert_many((0..24).map(|n| Task { n })).await.unwrap();
    // As large rows do, each job takes its time.
    database.trigger("BEFORE UPDATE", "NEW.state = 'running'", "PERFORM pg_sleep(0.15);").await;
    let runner = database
        .runner()
        .queue("default", 24)
        // Together they take longer than a fetch may.
        .lease(Duration::from_secs(3))
        .worker(at_once);
    database.start(runner).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1", 24).await;
}

/// An expression for args whose JSON text has six bytes for each of so many characters, and takes long to write.
fn large(characters: u32) -> String {
    format!("jsonb_build_object('n', 0, 'pad', repeat(E'\\x01', {characters}))")
}

#[support::test]
async fn a_job_that_never_comes_in_time_is_discarded_and_holds_up_no_other(database: Database) {
    let inserted = database.client.insert_many((0..6).map(|n| Task { n })).await.unwrap();
    let large = format!("UPDATE {{schema}}.job SET args = {} WHERE id = '{}'", large(30_000_000), inserted[0].id());
    assert_eq!(database.execute(&large).await, 1);
    let runner = database.runner().queue("default", 6).lease(Duration::from_secs(1)).worker(at_once);
    let runner = runner.start().await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1", 5).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'discarded'", 1).await;
    runner.stop().await.unwrap();
    let said = "SELECT errors #>> '{-1,error}' FROM {schema}.job WHERE state = 'discarded'";
    let said = database.text(said).await;
    assert!(said.starts_with("the job's row cannot be ") && said.contains("ms"), "{said}");
}

/// A table that is locked makes every fetch time out, and no job is the reason.
#[support::test]
async fn fetches_that_wait_for_a_lock_cost_no_job(database: Database) {
    database.client.insert_many((0..3).map(|n| Task { n })).await.unwrap();
    let lock = database.begin("LOCK TABLE {schema}.job IN SHARE MODE").await;
    database.start(database.runner().queue("default", 3).lease(Duration::from_secs(1)).worker(at_once)).await;
    // A fetch of three, some of one, and a search for the job that is too large.
    until_sent("fetch_jobs(", 4).await;
    lock.rollback().await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1", 3).await;
}

/// Each of these jobs has a megabyte: in its meta, its errors, the output of a run before, or its progress.
#[support::test]
async fn all_values_of_a_job_count_toward_the_bytes_of_a_fetch(database: Database) {
    database.client.insert_many((0..120).map(|n| Task { n })).await.unwrap();
    let fill = "UPDATE {schema}.job SET
        meta = CASE WHEN n % 4 = 0 THEN jsonb_build_object('pad', pad) ELSE '{}' END,
        errors = CASE WHEN n % 4 = 1 THEN jsonb_build_array(pad) ELSE '[]' END,
        output = CASE WHEN n % 4 = 2 THEN to_jsonb(pad) END,
        progress = CASE WHEN n % 4 = 3 THEN to_jsonb(pad) END
        FROM (SELECT id AS of, (args ->> 'n')::integer AS n, repeat('x', 1000000) AS pad FROM {schema}.job) AS f
        WHERE id = of";
    database.execute(fill).await;
    let runner = database.runner().queue("default", 60).worker(at_once).start().await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 120).await;
    runner.stop().await.unwrap();
    // Jobs that start in one fetch do so at one time.
    let most = "SELECT max(jobs) FROM (
            SELECT count(*) AS jobs FROM {schema}.job GROUP BY attempted_at ORDER BY attempted_at OFFSET 1
        ) AS f";
    let most = database.number(most).await;
    assert!((1..=17).contains(&most), "{most} jobs in one fetch");
}

#[support::test]
async fn of_many_errors_the_newest_are_kept(database: Database) {
    let job = database.client.insert(Task { n: 1 }).max_attempts(60).await.unwrap();
    let work = async |job: RunningJob<Task>| Err::<(), _>(format!("failed {}", job.attempt()));
    database.start(quick(&database.client).worker(work)).await;
    let row = database.until_state(job.id(), JobState::Discarded).await;
    let attempts: Vec<_> = row.errors.iter().map(|error| error.attempt).collect();
    assert_eq!(attempts, (11..=60).collect::<Vec<_>>());
    assert_eq!(row.errors[49].error, "failed 60");
}

/// Only in a full run: the server needs 2 GB of memory.
#[tokio::test]
async fn a_row_of_more_than_a_gigabyte_of_text_holds_up_its_neighbours_for_less_than_a_lease() {
    const LEASE: Duration = Duration::from_secs(20);
    if !soak(false, true) {
        return;
    }
    let database = Database::new().await;
    let inserted = database.client.insert_many((0..6).map(|n| Task { n })).await.unwrap();
    let huge = format!("UPDATE {{schema}}.job SET args = {} WHERE id = '{}'", large(190_000_000), inserted[0].id());
    assert_eq!(database.execute(&huge).await, 1);
    let runner = Runner::new(database.client.clone()).queue("default", 10).lease(LEASE);
    let runner = runner.worker(at_once).start().await.unwrap();
    let began = std::time::Instant::now();
    for (what, state, jobs) in [("the neighbours ran", "completed", 5), ("it was discarded", "discarded", 1)] {
        let count = format!("SELECT count(*) FROM {{schema}}.job WHERE state = '{state}'");
        eventually!(within 10 * LEASE; database.number(&count).await >= jobs, "the queue stands still");
        println!("{what} after {:.1?}, with a lease of {LEASE:?}", began.elapsed());
    }
    runner.stop().await.unwrap();
}

/// Only in a full run: the server needs 2 GB of memory.
#[tokio::test]
async fn a_row_of_more_than_a_gigabyte_of_text_is_discarded_and_many_large_ones_are_worked() {
    if !soak(false, true) {
        return;
    }
    let database = Database::new().await;
    let inserted = database.client.insert_many((0..26).map(|n| Task { n })).await.unwrap();
    // Its text is larger than a value can be.
    let huge = format!("UPDATE {{schema}}.job SET args = {} WHERE id = '{}'", large(190_000_000), inserted[0].id());
    assert_eq!(database.execute(&huge).await, 1);
    let plain = "UPDATE {schema}.job SET args = args || jsonb_build_object('pad', repeat('x', 50000000))
        WHERE (args ->> 'n')::integer BETWEEN 1 AND 24";
    assert_eq!(database.execute(plain).await, 24);
    let runner = Runner::new(database.client.clone())
        .queue("default", 26)
        // So that a busy server sends 50 MB well within half of a fetch's time, and this thread reads them between heartbeats.
        .lease(Duration::from_secs(20))
        .worker(at_once);
    let runner = runner.start().await.unwrap();
    let began = std::time::Instant::now();
    eventually!(within 20 * WAIT; database.number("SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL").await == 0, "the queue stands still");
    println!("26 jobs, 25 of them large, after {:.1?}", began.elapsed());
    runner.stop().await.unwrap();
    let discarded = format!(
        "SELECT count(*) FROM {{schema}}.job WHERE state = 'discarded' AND id = '{}'
            AND errors #>> '{{-1,error}}' LIKE 'the job''s row cannot be %'",
        inserted[0].id()
    );
    assert_eq!(database.number(&discarded).await, 1);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE state = 'completed'").await, 25);
}
