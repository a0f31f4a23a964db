//! Nothing is lost and nothing overtakes, whatever happens to remote workers.

use tokio::time::sleep;

use super::Remote;
use crate::groups::{HISTORY, assert_kept};
use support::prelude::*;

const LEFT: &str = "SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL";

/// What a worker does to its jobs besides completing them, in percent.
#[derive(Clone, Copy)]
struct Faults {
    /// It dies: neither result nor anything else is heard of it again.
    dies: u64,
    /// It hangs beyond the reservation and answers late.
    hangs: u64,
    /// The answer to its result is lost, and it sends the result again.
    loses_answers: u64,
    fails: u64,
    snoozes: u64,
}

/// Works until nothing is left. A worker that dies is followed by another of the same name.
async fn work(database: Arc<Database>, worker: Remote, faults: Faults, seed: u64, counted: Arc<AtomicU64>) {
    let mut dice = Dice::new(seed, 35);
    loop {
        worker.maintain().await;
        let Ok(jobs) = worker.try_fetch(1).await else { continue };
        let Some(job) = jobs.into_iter().next() else {
            if database.number(LEFT).await == 0 {
                return;
            }
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        if dice.percent(faults.dies) {
            continue;
        }
        if dice.percent(faults.hangs) {
            sleep(Duration::from_millis(1_300)).await;
        } else {
            sleep(Duration::from_millis(1)).await;
        }
        let (call, rest) = match () {
            () if dice.percent(faults.fails) => ("fail_jobs", ", ARRAY['no luck'], ARRAY[interval '10 ms']"),
            () if dice.percent(faults.snoozes) => ("snooze_jobs", ", ARRAY[interval '10 ms']"),
            () => ("complete_jobs", ""),
        };
        let ended = worker.end(std::slice::from_ref(&job), call, rest).await.remove(0);
        if ended.counted && call == "complete_jobs" {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        if dice.percent(faults.loses_answers) {
            let again = worker.end(&[job], call, rest).await.remove(0);
            assert!(!again.counted, "{again:?} after {ended:?}");
        }
    }
}

async fn crowd(database: Database, workers: u64, of_one_name: u64, faults: Faults) -> (Arc<Database>, u64) {
    let database = Arc::new(database);
    let counted = Arc::new(AtomicU64::new(0));
    let mut crowd = JoinSet::new();
    for n in 0..workers {
        let worker = Remote::new(&database, &format!("w{}", n / of_one_name)).reserve("1 second");
        let seed = u64::from(std::process::id()) + n;
        crowd.spawn(work(Arc::clone(&database), worker, faults, seed, Arc::clone(&counted)));
    }
    while let Some(ended) = crowd.join_next().await {
        ended.unwrap();
    }
    let counted = counted.load(Ordering::Relaxed);
    (database, counted)
}

#[support::test(with_connections(16), flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_order_hold_whatever_becomes_of_remote_workers(database: Database) {
    sqlx::raw_sql(database.sql(HISTORY)).execute(database.pool()).await.unwrap();
    let groups = soak(8, 40);
    let jobs = (0..soak(160, 2_000)).map(|n| {
        let group = n % groups;
        let job = job("j").group(format!("g{group}")).max_attempts(1_000);
        // Every fourth group runs in order.
        if group % 4 == 0 { job.in_order() } else { job.group_limit((group % 3 + 1) as u16) }
    });
    database.client.insert_many(jobs).await.unwrap();
    let faults = Faults { dies: 3, hangs: 2, loses_answers: 20, fails: 10, snoozes: 10 };
    let (database, counted) = crowd(database, 12, 2, faults).await;
    assert_kept(database.pool(), &database.schema).await;
    let completed = database.number("SELECT count(*) FROM {schema}.job WHERE state = 'completed'").await;
    assert_eq!(completed, i64::try_from(counted).unwrap(), "each completion counted once");
    let others = "SELECT count(*) FROM {schema}.job WHERE state <> 'completed' AND crashes < 3";
    assert_eq!(database.number(others).await, 0);
    for happened in ["rescued: ", "no luck"] {
        let happened = format!("SELECT count(*) FROM {{schema}}.job WHERE errors::text LIKE '%{happened}%'");
        assert!(database.number(&happened).await > 0, "{happened}");
    }
}

#[support::test(with_connections(soak(20, 40)), flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_workers_of_one_slot_keep_the_limit_of_their_queue(database: Database) {
    database.client.queue("default").limit(Some(5)).await.unwrap();
    let jobs = soak(300, 3_000);
    database.client.insert_many((0..jobs).map(|_| job("j"))).await.unwrap();
    let watching = database.sql(
        "CREATE TABLE {schema}.seen (running bigint);
            CREATE FUNCTION {schema}.see() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF NEW.state = 'running' AND OLD.state <> 'running' THEN
                    INSERT INTO {schema}.seen SELECT count(*) FROM {schema}.job WHERE state = 'running';
                END IF;
                RETURN NULL;
            END $$;
            CREATE TRIGGER see AFTER UPDATE ON {schema}.job FOR EACH ROW EXECUTE FUNCTION {schema}.see()",
    );
    sqlx::raw_sql(watching).execute(database.pool()).await.unwrap();
    let faults = Faults { dies: 0, hangs: 0, loses_answers: 5, fails: 0, snoozes: 0 };
    let (database, counted) = crowd(database, 100, 1, faults).await;
    assert_eq!(counted, jobs);
    assert_eq!(database.number("SELECT max(running) FROM {schema}.seen").await, 5);
    let once = "SELECT count(*) FROM {schema}.job WHERE run = 1 AND attempt = 1 AND state = 'completed'";
    assert_eq!(database.number(once).await, i64::try_from(jobs).unwrap());
}

/// Time goes by: a minute for what the session counted, and an hour for what the worker's row says.
async fn pass(database: &Database) {
    let of_row = "UPDATE {schema}.runner SET started_at = started_at - interval '1 hour', counted_at = counted_at - interval '1 hour'";
    database.execute(of_row).await;
    pass_in_session(database).await;
}

async fn pass_in_session(database: &Database) {
    let of_session = "SELECT set_config('uniqueue.worked', coalesce((
        SELECT jsonb_object_agg(w.name, jsonb_build_array(w.counts -> 0, w.counts -> 1, (w.counts ->> 2)::float8 - 60))::text
        FROM jsonb_each(nullif(current_setting('uniqueue.worked', true), '')::jsonb) AS w (name, counts)
    ), '{}'), false)";
    database.execute(of_session).await;
}

async fn counts(database: &Database) -> (u64, u64) {
    let runners = Admin::new(&database.client).runners().await.unwrap();
    let [runner] = runners.as_slice() else { panic!("{runners:?}") };
    (runner.completed, runner.failed)
}

/// Completed and failed jobs in an hour.
async fn rates(database: &Database) -> (f64, f64) {
    let rates = Admin::new(&database.client).stats().await.unwrap().rates;
    ((rates.completed * 3_600.0).round(), (rates.failed * 3_600.0).round())
}

#[support::test(with_connections(1))]
async fn results_are_counted_for_their_worker_and_its_rate_falls_when_it_is_idle(database: Database) {
    database.client.insert_many((0..9).map(|_| job("j").max_attempts(1))).await.unwrap();
    let worker = Remote::new(&database, "w");
    let jobs = worker.fetch(9).await;
    worker.end(&jobs[..3], "complete_jobs", "").await;
    worker.end(&jobs[3..4], "fail_jobs", ", ARRAY['bad']").await;
    worker.end(&jobs[4..5], "give_back_jobs", "").await;
    worker.end(&jobs[5..6], "finish_jobs", ", ARRAY['cancel'], errors => ARRAY['no']").await;
    worker.end(&jobs[6..7], "finish_jobs", ", ARRAY['discard'], errors => ARRAY['no']").await;
    // A result that does not count is not counted.
    worker.end(&jobs[..3], "complete_jobs", "").await;
    assert_eq!(counts(&database).await, (0, 0), "not yet written");
    pass(&database).await;
    worker.end(&jobs[7..8], "finish_jobs", ", ARRAY['complete'], outputs => ARRAY['1']").await;
    assert_eq!(counts(&database).await, (4, 2));
    assert_eq!(rates(&database).await, (4.0, 2.0));
    // After the last result of all, a fetch writes it.
    worker.complete(&jobs[8]).await;
    pass(&database).await;
    worker.end(&worker.fetch(9).await, "snooze_jobs", ", ARRAY[interval '1 hour']").await;
    assert_eq!(counts(&database).await, (5, 2));
    assert_eq!(rates(&database).await, (1.0, 0.0));
    pass(&database).await;
    worker.fetch(1).await;
    assert_eq!((counts(&database).await, rates(&database).await), ((5, 2), (0.0, 0.0)));
}

#[support::test(with_connections(1))]
async fn a_locked_row_of_the_worker_holds_up_no_result_and_loses_no_count(database: Database) {
    database.client.insert_many((0..2).map(|_| job("j"))).await.unwrap();
    let worker = Remote::new(&database, "w");
    let jobs = worker.fetch(2).await;
    pass(&database).await;
    let other = database.another_pool(1).await;
    let mut locking = other.acquire().await.unwrap();
    let mut locking = locking.begin().await.unwrap();
    let lock = database.sql("SELECT FROM {schema}.runner FOR UPDATE");
    sqlx::raw_sql(lock).execute(&mut *locking).await.unwrap();
    worker.complete(&jobs[0]).await;
    // What is counted in a transaction that is rolled back is not.
    let mut undone = database.pool().begin().await.unwrap();
    let complete =
        format!("SELECT FROM {{schema}}.complete_jobs(ARRAY['{}'::uuid], ARRAY[{}])", jobs[1].id, jobs[1].run);
    sqlx::raw_sql(database.sql(&complete)).execute(&mut *undone).await.unwrap();
    undone.rollback().await.unwrap();
    pass_in_session(&database).await;
    worker.fetch(1).await;
    assert_eq!(counts(&database).await, (0, 0));
    locking.rollback().await.unwrap();
    worker.fetch(1).await;
    assert_eq!(counts(&database).await, (1, 0));
}
