//! The tests of the rules, which run in every mode.

use super::Ground;
use support::prelude::*;

pub async fn jobs_that_wait_and_jobs_that_come_are_picked_up(ground: &Ground) {
    let (work, mut started) = telling(|job| job.args.n);
    ground.client.insert_many((0..50).map(|n| Task { n })).await.unwrap();
    ground.database.start(ground.runner().worker(work)).await;
    let mut seen = Vec::new();
    for _ in 0..50 {
        seen.push(next(&mut started).await);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
    for n in 50..60 {
        let mut tx = ground.client.pool().begin().await.unwrap();
        ground.client.insert(Task { n }).tx(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(next(&mut started).await, n);
    }
    ground.database.end().await;
    let worked = "SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1";
    assert_eq!(ground.database.number(worked).await, 60);
    assert_eq!(ground.database.number("SELECT count(*) FROM {schema}.runner").await, 0);
}

pub async fn a_failed_job_is_tried_again_and_discarded_in_the_end(ground: &Ground) {
    let work = |job: RunningJob<Task>| async move {
        if job.attempt() < 3 || job.args.n == 0 { Err(format!("no luck {}", job.attempt())) } else { Ok(()) }
    };
    ground.database.start(ground.runner().worker(work)).await;
    let hopeless = ground.client.insert(Task { n: 0 }).max_attempts(3).await.unwrap();
    let better = ground.client.insert(Task { n: 1 }).await.unwrap();
    let row = ground.until(hopeless.id(), JobState::Discarded).await;
    let errors: Vec<_> = row.errors.iter().map(|error| (error.attempt, error.error.as_str())).collect();
    assert_eq!(errors, [(1, "no luck 1"), (2, "no luck 2"), (3, "no luck 3")]);
    assert_eq!(row.attempt, 3);
    let row = ground.until(better.id(), JobState::Completed).await;
    assert_eq!((row.attempt, row.errors.len()), (3, 2));
}

pub async fn a_scheduled_job_starts_when_it_is_due(ground: &Ground) {
    ground.database.start(ground.runner().worker(at_once)).await;
    let delay = Duration::from_millis(400);
    let soon = ground.client.insert(Task { n: 1 }).scheduled_in(delay).await.unwrap();
    let late = ground.client.insert(Task { n: 2 }).scheduled_in(HOUR).await.unwrap();
    let row = ground.until(soon.id(), JobState::Completed).await;
    assert!(row.attempted_at.unwrap() - row.created_at >= delay);
    assert_eq!(ground.client.job(late.id()).await.unwrap().unwrap().state, JobState::Scheduled);
}

pub async fn a_snoozed_job_comes_back(ground: &Ground) {
    let work = async |job: RunningJob<Task>| match job.row().run {
        1..=3 => Outcome::snooze(Duration::from_millis(30)),
        _ => Outcome::complete(),
    };
    ground.database.start(ground.runner().worker(work)).await;
    let snoozed = ground.client.insert(Task { n: 1 }).max_attempts(1).await.unwrap();
    let row = ground.until(snoozed.id(), JobState::Completed).await;
    assert_eq!((row.attempt, row.run), (1, 4));
}

pub async fn a_running_job_that_is_cancelled_is_told(ground: &Ground) {
    let (sender, mut told) = mpsc::unbounded_channel();
    let work = move |job: RunningJob<Task>| {
        let sender = sender.clone();
        async move { sender.send(job.stopped().await) }
    };
    ground.database.start(ground.runner().worker(work)).await;
    let running = ground.client.insert(Task { n: 1 }).await.unwrap();
    ground.until(running.id(), JobState::Running).await;
    let cancelled_at = Instant::now();
    assert_eq!(ground.client.cancel([running.id()]).await.unwrap(), [running.id()]);
    assert_eq!(next(&mut told).await, StopReason::Cancelled);
    // By the next heartbeat at the latest: a quarter of the lease; the rest is for busy machines.
    assert!(cancelled_at.elapsed() < Duration::from_secs(5), "{:?}", cancelled_at.elapsed());
    ground.database.end().await;
    let row = ground.client.job(running.id()).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempt), (JobState::Cancelled, 1));
}

pub async fn a_paused_queue_rests_until_it_is_resumed(ground: &Ground) {
    ground.database.execute("INSERT INTO {schema}.queue (name, paused_at) VALUES ('default', now())").await;
    let runner = ground.runner().queue("open", 1).poll_interval(Duration::from_millis(20));
    ground.database.start(runner.worker(at_once)).await;
    let paused = ground.client.insert(Task { n: 1 }).await.unwrap();
    let open = ground.client.insert(Task { n: 2 }).queue("open").await.unwrap();
    ground.until(open.id(), JobState::Completed).await;
    assert_eq!(ground.client.job(paused.id()).await.unwrap().unwrap().state, JobState::Available);
    ground.database.execute("UPDATE {schema}.queue SET paused_at = NULL").await;
    ground.until(paused.id(), JobState::Completed).await;
}

pub async fn a_stop_finishes_what_runs_and_leaves_the_rest(ground: &Ground) {
    let (work, started, go_on) = held_up();
    ground.client.insert_many((0..100).map(|n| Task { n })).await.unwrap();
    let runner = ground.runner().worker(work).start().await.unwrap();
    timeout(WAIT, started.notified()).await.unwrap();
    let stopping = tokio::spawn(runner.stop());
    go_on.add_permits(100);
    timeout(WAIT, stopping).await.unwrap().unwrap().unwrap();
    let lost = "SELECT count(*) FROM {schema}.job
        WHERE NOT (state = 'completed' AND attempt = 1) AND NOT (state = 'available' AND attempt = 0)";
    assert_eq!(ground.database.number(lost).await, 0, "an attempt was lost");
    assert!(ground.database.number("SELECT count(*) FROM {schema}.job WHERE state = 'completed'").await > 0);
    assert_eq!(ground.database.number("SELECT count(*) FROM {schema}.runner").await, 0);
}

pub async fn effects_commit_with_their_completion_exactly_once(ground: &Ground) {
    ground.database.execute("CREATE TABLE {schema}.effect (n integer)").await;
    let insert = ground.database.sql("INSERT INTO {schema}.effect VALUES (1)");
    let work = move |job: RunningJob<Task>| {
        let insert = insert.clone();
        async move {
            let mut tx = job.client().pool().begin().await?;
            sqlx::query(insert).execute(&mut *tx).await?;
            job.complete_in(&mut tx).await?;
            if job.attempt() < 3 {
                tx.rollback().await?
            } else {
                tx.commit().await?
            }
            Ok::<_, BoxError>(())
        }
    };
    ground.database.start(ground.runner().worker(work)).await;
    let jobs = ground.client.insert_many((0..10).map(|n| Task { n })).await.unwrap();
    for job in jobs {
        let row = ground.until(job.id(), JobState::Completed).await;
        assert_eq!((row.attempt, row.errors.len()), (3, 2));
        // An Ok without the commit does not pass for done.
        assert!(row.errors[0].error.contains("did not commit"), "{row:?}");
    }
    ground.database.end().await;
    assert_eq!(ground.database.number("SELECT count(*) FROM {schema}.effect").await, 10);
}

pub async fn the_jobs_of_a_dead_runner_come_back(ground: &Ground) {
    let lost = ground.client.insert(Task { n: 1 }).await.unwrap();
    let killer = ground.client.insert(Task { n: 2 }).max_attempts(1).await.unwrap();
    for job in [&lost, &killer] {
        ground.database.set_state(job.id(), "running").await;
    }
    ground.database.execute("UPDATE {schema}.job SET attempt = 1").await;
    ground.database.start(ground.runner().worker(at_once)).await;
    let lost = ground.until(lost.id(), JobState::Completed).await;
    assert_eq!((lost.run, lost.attempt, lost.crashes), (1, 1, 1));
    for row in [lost, ground.until(killer.id(), JobState::Discarded).await] {
        assert!(row.errors[0].error.starts_with("rescued: "), "{row:?}");
    }
}

pub async fn final_jobs_are_pruned(ground: &Ground) {
    let retention = Retention::forever().completed(Duration::ZERO);
    let runner = ground.runner().retention(retention).prune_interval(Duration::from_millis(10));
    ground.database.start(runner.worker(at_once)).await;
    ground.client.insert_many((0..20).map(|n| Task { n })).await.unwrap();
    ground.database.until("SELECT count(*) FROM {schema}.job", 0).await;
}

pub async fn jobs_that_the_database_refuses_to_change_hold_up_no_other(ground: &Ground) {
    let due = |n| NewJob::from(Task { n }).scheduled_in(Duration::from_millis(100));
    let jobs = ground.client.insert_many((0..20).map(due)).await.unwrap();
    let table = format!(
        "CREATE TABLE {{schema}}.report AS SELECT '{}'::uuid AS job;
        ALTER TABLE {{schema}}.report ADD FOREIGN KEY (job) REFERENCES {{schema}}.job (id) DEFERRABLE INITIALLY DEFERRED",
        jobs[13].id()
    );
    ground.database.execute(&table).await;
    ground.database.trigger("BEFORE UPDATE", "NEW.args->>'n' = '7'", "RAISE EXCEPTION 'not this one';").await;
    let retention = Retention::forever().completed(Duration::from_millis(1));
    let runner = ground.runner().retention(retention).prune_interval(Duration::from_millis(10));
    ground.database.start(runner.worker(at_once)).await;
    eventually!(ground.database.number("SELECT count(*) FROM {schema}.job").await <= 2, "held up");
    assert_eq!(ground.client.job(jobs[7].id()).await.unwrap().unwrap().state, JobState::Scheduled);
    assert_eq!(ground.client.job(jobs[13].id()).await.unwrap().unwrap().state, JobState::Completed);
}

pub async fn inserts_of_every_sort_mean_the_same(ground: &Ground) {
    let client = &ground.client;
    let unique =
        |n: u32, on_conflict| job("unique").unique_key(UniqueKey::raw(format!("key {n}")).on_conflict(on_conflict));
    let first = client.insert(unique(1, OnConflict::Ignore)).await.unwrap();
    let again = client.insert(unique(1, OnConflict::Ignore)).await.unwrap();
    assert!(!first.duplicate && again.duplicate && again.id() == first.id());
    let refused = client.insert(unique(1, OnConflict::Reject)).await.unwrap_err();
    assert_eq!(refused.rejections()[0].holder, Some(first.id()));
    let next = client.insert(unique(1, OnConflict::Replace)).await.unwrap();
    assert_eq!(next.replaced, Some(first.id()));
    // A batch of both sorts, with a key twice and a holder among them, in one transaction with others.
    let mut tx = client.pool().begin().await.unwrap();
    let batch = (0..30).map(|n| if n % 2 == 0 { job("plain") } else { unique(n / 10, OnConflict::Ignore) });
    let answers = client.insert_many(batch).tx(&mut tx).await.unwrap();
    let refused = client.insert(unique(1, OnConflict::Reject)).tx(&mut tx).await.unwrap_err();
    assert!(refused.is_duplicate());
    let usable: i64 = sqlx::query_scalar("SELECT 1::bigint").fetch_one(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((usable, answers.len()), (1, 30));
    assert_eq!(answers.iter().filter(|answer| answer.duplicate).count(), 13, "15 unique ones, two new keys");
    let mut tx = client.pool().begin().await.unwrap();
    let gone = client.insert(unique(9, OnConflict::Ignore)).tx(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    assert!(client.job(gone.id()).await.unwrap().is_none());
    // Many at once, over connections that take turns.
    let rivals = (0..20).map(|_| {
        let (client, job): (Client, NewJob) = (client.clone(), unique(10, OnConflict::Ignore));
        async move { client.insert(job).await.unwrap().duplicate }
    });
    let duplicates = rivals.collect::<JoinSet<_>>().join_all().await;
    assert_eq!(duplicates.iter().filter(|duplicate| !**duplicate).count(), 1);
}

pub async fn a_wait_for_a_rival_is_bounded_and_leaves_no_bound_behind(ground: &Ground) {
    let unique = || job("unique").unique_key(UniqueKey::raw("contested"));
    let mut rival = ground.database.pool().begin().await.unwrap();
    ground.database.client.insert(unique()).tx(&mut rival).await.unwrap();
    for _ in 0..25 {
        let busy = ground.client.insert(unique()).max_wait(Duration::from_millis(2)).await.unwrap_err();
        assert!(matches!(busy, Error::Busy { .. }), "{busy}");
    }
    rival.rollback().await.unwrap();
    assert!(!ground.client.insert(unique()).max_wait(WAIT).await.unwrap().duplicate);
    // More often than there are sessions to have kept it.
    for _ in 0..50 {
        let bound: String =
            sqlx::query_scalar("SELECT current_setting('lock_timeout')").fetch_one(ground.client.pool()).await.unwrap();
        assert_eq!(bound, "0");
    }
}

pub async fn changes_by_hand_change(ground: &Ground) {
    let client = &ground.client;
    let jobs = client.insert_many((0..4).map(|n| Task { n })).await.unwrap();
    let ids: Vec<_> = jobs.iter().map(uniqueue::Inserted::id).collect();
    let held = client.insert(job("held").pending().unique_key(UniqueKey::raw("held"))).await.unwrap();
    assert_eq!(client.holder("held").await.unwrap().unwrap().id, held.id());
    assert_eq!(client.release([held.id()]).await.unwrap(), [held.id()]);
    assert_eq!(client.release_claim("held").await.unwrap(), Some(held.id()));
    assert_eq!(client.cancel([ids[0], ids[1]]).await.unwrap().len(), 2);
    assert_eq!(client.retry([ids[0]]).await.unwrap(), [ids[0]]);
    let later = time::OffsetDateTime::now_utc() + HOUR;
    assert_eq!(client.reschedule([ids[2]], later).await.unwrap(), [ids[2]]);
    let mut tx = client.pool().begin().await.unwrap();
    assert_eq!(client.delete([ids[3]]).tx(&mut tx).await.unwrap(), [ids[3]]);
    tx.commit().await.unwrap();
    for (id, state) in [
        (ids[0], Some(JobState::Available)),
        (ids[1], Some(JobState::Cancelled)),
        (ids[2], Some(JobState::Scheduled)),
        (ids[3], None),
    ] {
        assert_eq!(client.job(id).await.unwrap().map(|row| row.state), state);
    }
}

pub async fn migrations_and_explanations_work(ground: &Ground) {
    let name = format!("{}_again", ground.database.schema);
    let schema = uniqueue::SchemaName::new(&name).unwrap();
    let client = Client::builder().schema(schema).pool(ground.client.pool().clone());
    let many = (0..4).map(|_| {
        let client = client.clone();
        async move { client.migrate().await.unwrap().len() }
    });
    let applied = many.collect::<JoinSet<_>>().join_all().await;
    assert_eq!(applied.iter().filter(|count| **count > 0).count(), 1, "{applied:?}");
    client.check_schema().await.unwrap();
    let unique = || job("unique").unique_key(UniqueKey::raw("k"));
    let holder = client.insert(unique()).await.unwrap();
    let explained = client.explain(unique()).await.unwrap();
    assert_eq!(explained.holder.map(|duplicate| duplicate.holder), Some(holder.id()));
}
