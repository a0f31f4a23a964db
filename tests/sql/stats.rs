//! Statistics of queues.

use support::prelude::*;

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "task")]
struct Task {
    fails: bool,
    is_completed_in: bool,
}

#[support::test]
async fn numbers_are_those_of_the_jobs(database: Database, client: &Client) {
    let empty = Admin::new(client).stats().await.unwrap();
    assert!(JobState::ALL.iter().all(|state| empty.jobs[state] == JobCount::Exactly(0)));
    assert_eq!((empty.runners, empty.oldest_available_age, empty.finished), (0, None, None));
    assert_eq!((empty.rates.inserted, empty.rates.worked_over), (0.0, None));

    // A hundred finished jobs that waited 1 to 100 s and ran a tenth of that, an hour ago and before.
    let finished = "INSERT INTO {schema}.job (id, kind, queue, state, created_at, scheduled_at, attempted_at, finalized_at, attempt)
        SELECT {schema}.new_job_id(), 'a', 'done', (ARRAY['completed', 'discarded'])[1 + n % 2]::{schema}.job_state,
            at - interval '1 day', at, at + n * interval '1 s', at + n * interval '1.1 s', 1
        FROM generate_series(1, 100) AS n, LATERAL (SELECT now() - interval '2 hours' AS at) AS t";
    database.execute(finished).await;
    let waiting = "INSERT INTO {schema}.job (id, kind, queue, created_at, scheduled_at)
        SELECT {schema}.new_job_id(), 'a', 'q' || n % 3, at, at
        FROM generate_series(1, 30) AS n, LATERAL (SELECT now() - CASE n WHEN 30 THEN 45 ELSE n END * interval '1 s' AS at) AS t";
    database.execute(waiting).await;
    client.queue("q0").pause().await.unwrap();
    let stats = Admin::new(client).stats().within(Duration::from_secs(60)).await.unwrap();
    assert_eq!(stats.jobs[&JobState::Available], JobCount::Exactly(30));
    assert_eq!(stats.jobs[&JobState::Completed], JobCount::Exactly(50));
    assert_eq!(stats.jobs[&JobState::Discarded], JobCount::Exactly(50));
    // The job of 45 s is in a queue that is paused, as it is meant to be.
    let oldest = stats.oldest_available_age.unwrap().as_secs();
    assert!((29..45).contains(&oldest), "{oldest}");
    assert!((stats.rates.inserted - 0.5).abs() < 1e-9 && stats.rates.inserted_over == Duration::from_secs(60));
    let times = stats.finished.unwrap();
    assert_eq!(times.jobs, 100);
    assert_eq!(
        [times.wait.p50, times.wait.p90, times.wait.p99, times.wait.max].map(|t| t.as_secs()),
        [50, 90, 99, 100]
    );
    assert_eq!([times.run.p50, times.run.max].map(|t| t.as_millis()), [5_000, 10_000]);

    // Of the ten that finished last, and counted no further than 20.
    let stats = Admin::new(client).stats().sample(10).count_up_to(20).await.unwrap();
    let times = stats.finished.unwrap();
    assert_eq!((times.jobs, times.wait.p50.as_secs()), (10, 95));
    assert_eq!(stats.jobs[&JobState::Completed], JobCount::About(50));
    // Each queue has ten.
    assert_eq!(stats.jobs[&JobState::Available], JobCount::Exactly(30));
}

#[support::test]
async fn runners_tell_what_they_work_off(database: Database, client: &Client) {
    let work = async |job: RunningJob<Task>| {
        if job.args.is_completed_in {
            let mut tx = job.client().pool().begin().await.unwrap();
            job.complete_in(&mut tx).await.unwrap();
            tx.commit().await.unwrap();
        }
        if job.args.fails { Err("it fails") } else { Ok(()) }
    };
    let runner = Runner::new(client.clone())
        .queue("default", 5)
        .lease(Duration::from_secs(4))
        .retry_policy(RetryPolicy::fixed(Duration::from_secs(3600)))
        .worker(work);
    let runner = runner.start().await.unwrap();
    let task = |n: u32| Task { fails: n >= 15, is_completed_in: n < 5 };
    client.insert_many((0..20).map(task)).await.unwrap();
    let mut was_told = false;
    eventually!(
        {
            let stats = Admin::new(client).stats().await.unwrap();
            assert_eq!(stats.runners, 1);
            was_told |= stats.rates.completed > 0.0 && stats.rates.worked_over.is_some();
            let row = sqlx::query(database.sql("SELECT completed, failed FROM {schema}.runner"));
            let row = row.fetch_one(database.pool()).await.unwrap();
            was_told && (row.get::<i64, _>(0), row.get::<i64, _>(1)) == (15, 5)
        },
        "the heartbeats tell it"
    );
    // With nothing to do it is nothing a second again, and the sum stays.
    eventually!(Admin::new(client).stats().await.unwrap().rates.completed <= 0.0, "the next heartbeats tell it");
    assert_eq!(database.number("SELECT completed FROM {schema}.runner").await, 15);
    runner.stop().await.unwrap();
    let stats = Admin::new(client).stats().await.unwrap();
    assert_eq!((stats.runners, stats.rates.worked_over), (0, None));
}

#[support::test]
async fn a_job_that_a_retry_discards_did_not_run_until_then(database: Database, client: &Client) {
    let keyed =
        || job("a").unique_key(UniqueKey::raw("k").states([JobState::Available]).on_reentry(OnReentry::Discard));
    let old = client.insert(keyed()).await.unwrap().id();
    // It ran a day ago, and waits for its retry since.
    let ran = "UPDATE {schema}.job SET state = 'retryable', attempt = 1, created_at = now() - interval '1 day',
        scheduled_at = now() - interval '1 day', attempted_at = now() - interval '1 day'";
    database.execute(ran).await;
    let longest = async || Admin::new(client).stats().await.unwrap().finished.map(|times| times.run.max);
    client.insert(keyed()).await.unwrap();
    client.retry(old).await.unwrap();
    assert_eq!(client.job(old).await.unwrap().unwrap().state, JobState::Discarded);
    assert_eq!(longest().await, None);
}

#[support::test]
async fn no_statement_of_it_reads_the_whole_table(database: Database) {
    // Without statistics, as after a sudden backlog.
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    let jobs = "INSERT INTO {schema}.job (id, kind, queue)
        SELECT {schema}.new_job_id(), 'a', 'q' || n % 3 FROM generate_series(1, 50000) AS n";
    database.execute(jobs).await;
    for analyzed in [false, true] {
        if analyzed {
            database.execute("ANALYZE {schema}.job").await;
        }
        for (name, text) in database.client.statements_text() {
            let query = sqlx::query(database.sql(&format!("EXPLAIN {text}"))).persistent(false);
            let query = match name {
                "stats_finished" => query.bind(1_000_i64).bind(100_i64),
                "stats_inserted" => query.bind(sqlx::postgres::types::PgInterval::default()).bind(1_000_i64),
                _ => continue,
            };
            let lines = query.fetch_all(database.pool()).await.unwrap();
            let plan = lines.iter().map(|line| line.get::<String, _>(0)).collect::<Vec<_>>().join("\n");
            assert!(!plan.contains("Seq Scan on job"), "{name}, analyzed {analyzed}:\n{plan}");
        }
    }
}

#[support::test]
async fn a_rate_is_of_what_could_be_seen(database: Database) {
    let many = "INSERT INTO {schema}.job (id, kind, created_at)
        SELECT {schema}.new_job_id(), 'a', now() - interval '10 s' FROM generate_series(1, 25000) AS n";
    database.execute(many).await;
    let stats = Admin::new(&database.client).stats().await.unwrap();
    // The newest 20,000 came within 10 seconds and what has passed since: not 25,000 within a minute.
    let over = stats.rates.inserted_over.as_secs_f64();
    assert!((10.0..60.0).contains(&over), "{over}");
    assert!((stats.rates.inserted - 20_000.0 / over).abs() < 1.0, "{:?}", stats.rates);
    let JobCount::About(available) = stats.jobs[&JobState::Available] else { panic!("{:?}", stats.jobs) };
    assert!((15_000..40_000).contains(&available), "{available}");
}

#[support::test]
async fn a_job_waits_from_when_it_could_run_and_was_there(database: Database, client: &Client) {
    // In minutes.
    let age = async || {
        let stats = Admin::new(client).stats().await.unwrap();
        let queue = &Admin::new(client).queues().await.unwrap()[0];
        [stats.oldest_available_age, queue.oldest_available_age].map(|age| age.unwrap().as_secs() / 60)
    };
    // Held back for days, and released now.
    let held = client.insert(job("a").pending()).await.unwrap();
    let days = "UPDATE {schema}.job SET created_at = created_at - interval '3 d', scheduled_at = scheduled_at - interval '3 d'";
    database.execute(days).await;
    client.release([held.id()]).await.unwrap();
    assert_eq!(age().await, [0, 0]);
    // Inserted now, for a time that had passed, which chooses its window.
    let late = job("a").scheduled_at(OffsetDateTime::now_utc() - Duration::from_secs(86_400));
    let late = client.insert(late).await.unwrap();
    assert_eq!(age().await, [0, 0]);
    let stuck = "SELECT count(*) FROM {schema}.stuck_job";
    assert_eq!(database.number(stuck).await, 0);
    let worked = format!(
        "UPDATE {{schema}}.job SET state = 'completed', attempt = 1, attempted_at = created_at + interval '2 s',
             finalized_at = created_at + interval '3 s' WHERE id = '{}'",
        late.id()
    );
    database.execute(&worked).await;
    assert_eq!(Admin::new(client).stats().await.unwrap().finished.unwrap().wait.max, Duration::from_secs(2));
    // And one that has waited, behind it.
    client.insert(job("a")).await.unwrap();
    let hour = "UPDATE {schema}.job SET created_at = now() - interval '1 h', scheduled_at = now() - interval '1 h'
        WHERE id = (SELECT max(id::text)::uuid FROM {schema}.job)";
    database.execute(hour).await;
    assert_eq!(age().await, [60, 60]);
    assert_eq!(database.number(stuck).await, 1);
}
