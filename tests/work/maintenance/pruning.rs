//! Final jobs are deleted when their retention is over: by state, by queue, at completion where it is zero.

use super::caretaker;
use support::prelude::*;

const JOBS: &str = "SELECT count(*) FROM {schema}.job";
const QUICK: Duration = Duration::from_millis(10);

/// Enters final jobs that ended so many seconds ago, with ids of that time.
pub(super) async fn final_jobs(database: &Database, queue: &str, state: &str, ago: u32, count: u32) {
    let insert = format!(
        "INSERT INTO {{schema}}.job (id, kind, queue, state, created_at, finalized_at)
        SELECT (substr({{schema}}.id_at(now() - interval '{ago} s')::text, 1, 14) || substr(gen_random_uuid()::text, 15))::uuid,
            'a', '{queue}', '{state}', now() - interval '{ago} s', now() - interval '{ago} s'
        FROM generate_series(1, {count})"
    );
    database.execute(&insert).await;
}

#[support::test]
async fn each_state_and_queue_has_a_retention_of_its_own(database: Database) {
    let said = "INSERT INTO {schema}.queue (name, keep_completed, keep_discarded)
        VALUES ('short', '1 minute', '1 minute'), ('long', '1000 years', '1000 years')";
    database.execute(said).await;
    for queue in ["plain", "short", "long"] {
        for state in ["completed", "cancelled", "discarded"] {
            final_jobs(&database, queue, state, 600, 1).await;
        }
    }
    let retention = Retention::forever().completed(Duration::from_secs(300)).cancelled(HOUR);
    database.start(caretaker(&database).retention(retention).prune_interval(QUICK)).await;
    eventually!(database.number(JOBS).await == 6, "too little pruned");
    let left = "SELECT string_agg(queue || ' ' || state, ', ' ORDER BY queue, state) FROM {schema}.job";
    let expected = "long cancelled, long completed, long discarded, plain cancelled, plain discarded, short cancelled";
    assert_eq!(database.text(left).await, expected);
    // A setting that changes is noticed.
    database.execute("UPDATE {schema}.queue SET keep_completed = '1 minute' WHERE name = 'long'").await;
    eventually!(database.number(JOBS).await == 5, "the change is not noticed");
    assert_eq!(database.text(left).await, expected.replace("long completed, ", ""));
}

#[support::test]
async fn ids_that_follow_no_clock_or_another_one_are_pruned_as_well(database: Database) {
    final_jobs(&database, "a", "completed", 7200, 10).await;
    let ahead = "INSERT INTO {schema}.job (id, kind, state, created_at, finalized_at)
        SELECT n, 'a', 'completed', now() - interval '2 h', now() - interval '2 h'
        FROM unnest(ARRAY[{schema}.id_at(now() + interval '1 year'), 'ffffffff-ffff-4fff-bfff-ffffffffffff',
            '00000000-0000-4000-8000-000000000000', '00000000-0000-0000-0000-000000000000']) AS n";
    database.execute(ahead).await;
    let retention = Retention::forever().completed(HOUR);
    database.start(caretaker(&database).retention(retention).prune_interval(QUICK)).await;
    eventually!(database.number(JOBS).await == 0, "not all pruned");
}

#[support::test]
async fn what_may_go_is_found_among_many_that_may_not(database: Database) {
    // Old jobs that wait, then a bit to prune, then jobs that are kept, then a bit to prune.
    let waiting = "INSERT INTO {schema}.job (id, kind, state, created_at, scheduled_at)
        SELECT (substr({schema}.id_at(now() - interval '9 h')::text, 1, 14) || substr(gen_random_uuid()::text, 15))::uuid,
            'a', 'scheduled', now() - interval '9 h', now() + interval '1 day' FROM generate_series(1, 9000)";
    database.execute(waiting).await;
    final_jobs(&database, "a", "completed", 8 * 3600, 3000).await;
    final_jobs(&database, "a", "discarded", 7 * 3600, 9000).await;
    final_jobs(&database, "a", "completed", 6 * 3600, 3000).await;
    final_jobs(&database, "a", "completed", 60, 3000).await;
    let retention = Retention::forever().completed(HOUR);
    database.start(caretaker(&database).retention(retention).prune_interval(QUICK)).await;
    eventually!(database.number(JOBS).await == 21_000, "not all pruned");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE state = 'completed'").await, 3000);
}

#[support::test]
async fn jobs_that_may_not_go_are_looked_at_once_and_not_every_round(database: Database) {
    final_jobs(&database, "a", "completed", 7200, 20_000).await;
    let day = Retention::default();
    // Some that may go come last, to tell when a round is over.
    final_jobs(&database, "a", "completed", 2 * 86_400, 1).await;
    database.start(caretaker(&database).retention(day.discarded(Duration::ZERO)).prune_interval(QUICK)).await;
    eventually!(database.number(JOBS).await == 20_000, "no round is over");
    let read =
        "SELECT coalesce(sum(idx_tup_fetch), 0)::bigint FROM pg_stat_all_tables WHERE relid = '{schema}.job'::regclass";
    // Statistics arrive late; they have when they stand still, which they never do if every round reads all.
    let began = Instant::now();
    loop {
        let before = database.number(read).await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let after = database.number(read).await;
        if before >= 20_000 && after - before < 20_000 {
            break;
        }
        assert!(began.elapsed() < WAIT, "{before} rows read, then {after}");
    }
}

#[support::test]
async fn where_completed_jobs_are_kept_for_no_time_they_are_deleted_at_completion(database: Database) {
    database.execute("INSERT INTO {schema}.queue (name, keep_completed) VALUES ('kept', '1 day')").await;
    let work = |job: RunningJob<Task>| async move {
        match job.args.n % 3 {
            0 => {
                let mut tx = job.client().pool().begin().await?;
                job.complete_in(&mut tx).await?;
                tx.commit().await?;
                Ok(None)
            }
            1 => Ok(Some(uniqueue::Outcome::complete_with(job.args.n)?)),
            _ => Ok::<_, BoxError>(None),
        }
        .map(|outcome| outcome.unwrap_or(uniqueue::Outcome::complete()))
    };
    let runner = database.runner().queue("default", 10).queue("kept", 10);
    let runner = runner.retention(Retention::forever().completed(Duration::ZERO));
    database.start(runner.prune_interval(HOUR).worker(work)).await;
    let kept = (0..9).map(|n| NewJob::from(Task { n }).queue("kept"));
    database.client.insert_many(kept).await.unwrap();
    database.client.insert_many((0..90).map(|n| Task { n })).await.unwrap();
    let open = "SELECT count(*) FROM {schema}.job WHERE state <> 'completed'";
    eventually!(database.number(open).await == 0, "not all worked");
    // The pruner sleeps, so the job was deleted at completion.
    assert_eq!(database.text("SELECT string_agg(DISTINCT queue, ' ') FROM {schema}.job").await, "kept");
    assert_eq!(database.number(JOBS).await, 9);
}

#[support::test]
async fn a_claim_that_outlives_completion_keeps_the_row_until_its_deadline(database: Database) {
    let runner = database.runner().queue("default", 10).retention(Retention::forever().completed(Duration::ZERO));
    database.start(runner.prune_interval(QUICK).worker(at_once)).await;
    let key = |text: &str| UniqueKey::raw(text).scope(UniqueScope::Completed);
    let without = database.client.insert(Task { n: 1 }).unique_key(key("a")).await.unwrap();
    let bounded = key("b").period(HOUR);
    let with = database.client.insert(Task { n: 2 }).unique_key(bounded.clone()).await.unwrap();
    eventually!(database.client.job(without.id()).await.unwrap().is_none(), "not deleted");
    eventually!(
        { database.client.job(with.id()).await.unwrap().expect("the claim").state == JobState::Completed },
        "not completed"
    );
    assert!(database.client.insert(Task { n: 2 }).unique_key(bounded).await.unwrap().duplicate);
    database.pass(Duration::from_secs(7200)).await;
    database.execute("UPDATE {schema}.queue SET keep_completed = NULL").await;
    database.execute("INSERT INTO {schema}.queue (name, keep_completed) VALUES ('x', '0')").await;
    eventually!(database.client.job(with.id()).await.unwrap().is_none(), "not pruned after the deadline");
}

#[support::test]
async fn a_queue_that_stops_keeping_is_heeded_after_a_heartbeat(database: Database) {
    let runner = database.runner().queue("default", 10).lease(Duration::from_secs(1));
    database.start(runner.prune_interval(HOUR).worker(at_once)).await;
    database.execute("INSERT INTO {schema}.queue (name, keep_completed) VALUES ('default', '0')").await;
    eventually!(
        {
            let inserted = database.client.insert(Task { n: 1 }).await.unwrap();
            let began = Instant::now();
            loop {
                match database.client.job(inserted.id()).await.unwrap() {
                    None => break true,
                    Some(row) if row.state == JobState::Completed => break false,
                    Some(_) => assert!(began.elapsed() < WAIT),
                }
            }
        },
        "never heeded"
    );
}

#[support::test]
async fn a_service_that_is_stuck_lets_the_others_go_on(database: Database) {
    database.start(caretaker(&database).prune_interval(QUICK)).await;
    eventually!(!super::holder(&database, "pruner").await.is_empty(), "no runner prunes");
    // The pruner reads the queues' settings, and nothing else of maintenance does.
    let locked = database.begin("LOCK TABLE {schema}.queue IN ACCESS EXCLUSIVE MODE").await;
    let later = database.client.insert(job("a").scheduled_in(Duration::from_millis(100))).await.unwrap();
    database.until_state(later.id(), JobState::Available).await;
    locked.rollback().await.unwrap();
}
