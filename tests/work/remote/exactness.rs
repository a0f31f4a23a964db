//! Nothing is lost and nothing overtakes, whatever happens to remote workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Remote;
use crate::groups::{HISTORY, assert_kept};
use support::dice::Dice;
use support::{Database, job, soak};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_order_hold_whatever_becomes_of_remote_workers() {
    let database = Database::with_connections(16).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_workers_of_one_slot_keep_the_limit_of_their_queue() {
    let database = Database::with_connections(soak(20, 40)).await;
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
