//! Random graphs of jobs under runners that are killed and a database that crashes, while operators cancel and retry: every
//! child is released once, and only when its parents allow it, or cancelled because its parents forbid it. No child is stuck.

use std::future::Future;
use std::time::Duration;

use sqlx::PgPool;
use tokio::time::sleep;
use uniqueue::{Client, JobId, NewJob, UniqueKey};

use support::cluster::Cluster;
use support::dice::Dice;
use support::process::{Order, RunnerProcess, application_pool};
use support::work::{Deed, Work};
use support::{eventually, soak};

/// Logs each release of a child, and whether its parents allowed it then; and each job that an operator cancelled.
const WATCH: [&str; 4] = [
    "CREATE TABLE uniqueue.release_log (child uuid NOT NULL, allowed boolean NOT NULL)",
    "CREATE TABLE uniqueue.cancelled_by_hand (id uuid NOT NULL)",
    "CREATE FUNCTION uniqueue.log_release() RETURNS trigger LANGUAGE plpgsql SET search_path = uniqueue AS $$
    BEGIN
        INSERT INTO release_log
        SELECT
            NEW.id,
            bool_and(e.outcome IS NOT NULL AND (e.condition <> 'completed' OR e.outcome = 'completed'))
                AND bool_or(e.outcome <> 'completed') FILTER (WHERE e.condition = 'failed') IS NOT FALSE
        FROM job_parent AS e
        WHERE e.child = NEW.id;
        RETURN NULL;
    END
    $$",
    "CREATE TRIGGER log_release AFTER UPDATE ON uniqueue.job FOR EACH ROW
     WHEN (OLD.state = 'pending' AND NEW.state IN ('available', 'scheduled')) EXECUTE FUNCTION uniqueue.log_release()",
];

fn deed(dice: &mut Dice) -> NewJob {
    let deed = match dice.below(10) {
        0 => Deed::Discard,
        1 => Deed::Cancel,
        2 => Deed::Fail,
        3 => Deed::Output,
        _ => Deed::Plain,
    };
    NewJob::from(Work { deed, millis: dice.below(20) })
}

/// A chain, a diamond, a fan-in or an arbitrary graph, with parents that other graphs share.
fn graph(dice: &mut Dice, fan_in: u64) -> Vec<NewJob> {
    let mut jobs: Vec<NewJob> = Vec::new();
    let size = match dice.below(20) {
        0 => fan_in,
        _ => 2 + dice.below(9),
    };
    let shape = dice.below(4);
    for place in 0..size {
        let mut job = deed(dice);
        if dice.percent(15) {
            job = job.unique_key(UniqueKey::raw(format!("shared {}", dice.below(20))));
        }
        let last = place + 1 == size;
        let earlier: Vec<&NewJob> = match shape {
            0 => jobs.last().into_iter().collect(),
            1 if last => jobs.iter().collect(),
            1 => Vec::new(),
            2 if last => jobs.iter().skip(1).collect(),
            2 => jobs.first().into_iter().collect(),
            _ => jobs.iter().filter(|_| dice.percent(30)).collect(),
        };
        for parent in earlier {
            job = match dice.below(10) {
                0 => job.after_failed(parent),
                1..=3 => job.after_final(parent),
                _ => job.after(parent),
            };
        }
        jobs.push(job);
    }
    jobs
}

/// Sends a call again until it is answered: the database is away at times.
async fn until_answered<T, F: Future<Output = uniqueue::Result<T>>>(call: impl Fn() -> F) -> T {
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Inserts graphs. An insert whose answer was lost is sent again with the same ids.
async fn insert(client: &Client, mut dice: Dice, graphs: u64, fan_in: u64) {
    for _ in 0..graphs {
        let jobs: Vec<_> = graph(&mut dice, fan_in).into_iter().map(|job| job.id(JobId::generate())).collect();
        let inserted = until_answered(async || client.insert_many(jobs.clone()).await).await;
        // Now and then a child of an earlier job, which may be waiting, running or final.
        let parent = &inserted[dice.below(inserted.len() as u64) as usize];
        if dice.percent(30) {
            let child = deed(&mut dice).after_final(parent).id(JobId::generate());
            until_answered(async || client.insert(child.clone()).await).await;
        }
        sleep(dice.millis(1, 10)).await;
    }
}

/// Cancels and retries jobs by hand. A change that a crash of the database undoes is not repeated.
async fn operate(client: &Client, mut dice: Dice) {
    loop {
        sleep(dice.millis(20, 120)).await;
        let (states, retries) = match dice.percent(50) {
            true => ("'pending', 'available', 'running'", false),
            false => ("'discarded', 'cancelled', 'completed'", true),
        };
        let some = format!("SELECT id FROM uniqueue.job WHERE state IN ({states}) ORDER BY random() LIMIT 2");
        let some = sqlx::query_scalar(sqlx::AssertSqlSafe(some)).fetch_all(client.pool()).await;
        let ids: Vec<uuid::Uuid> = some.unwrap_or_default();
        if retries {
            let _ = client.retry(ids.into_iter().map(JobId::from).collect::<Vec<_>>()).await;
        } else {
            for id in ids {
                let cancel = "INSERT INTO uniqueue.cancelled_by_hand SELECT id FROM uniqueue.cancel_jobs(ARRAY[$1])";
                let _ = sqlx::query(cancel).bind(id).execute(client.pool()).await;
            }
        }
    }
}

async fn number(pool: &PgPool, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_child_runs_exactly_when_its_parents_allow_while_runners_and_the_database_crash() {
    let mut cluster = Cluster::start("graphs").await;
    for statement in WATCH {
        sqlx::raw_sql(statement).execute(&cluster.direct).await.unwrap();
    }
    let url = cluster.proxy.url();
    let client = Client::new(application_pool(&url, 8));
    let seed = u64::from(std::process::id());
    // 10,000 graphs take about twenty minutes, so UNIQUEUE_GRAPHS sets their number.
    let own = std::env::var("UNIQUEUE_GRAPHS").ok().map(|graphs| graphs.parse().expect("UNIQUEUE_GRAPHS: a number"));
    let graphs = own.unwrap_or_else(|| soak(60, 300));
    let (fan_in, faults) = (soak(60, 1_000), usize::try_from((graphs / 25).clamp(4, 60)).unwrap());
    println!("graphs: {graphs}, seed {seed}");
    let order = |name: &str| Order { lease: Duration::from_secs(1), ..Order::new(&url, "uniqueue", name) };
    let mut runners = [RunnerProcess::start(&order("one")), RunnerProcess::start(&order("two"))];
    let mut restarts = 0;
    let work = async {
        let inserting = insert_all(&client, seed, graphs, fan_in);
        let harming = async {
            let mut dice = Dice::new(seed, 7);
            for fault in 0..faults {
                sleep(dice.millis(300, 1_200)).await;
                if fault % 4 == 3 {
                    cluster.restart().await;
                    restarts += 1;
                } else {
                    runners[fault % 2].kill();
                    runners[fault % 2] = RunnerProcess::start(&order(&format!("{fault}")));
                }
            }
        };
        tokio::join!(inserting, harming);
    };
    tokio::select! {
        () = work => {}
        () = operate(&client, Dice::new(seed, 9)) => {}
    }
    assert!(restarts > 0);
    for open in [
        "SELECT count(*) FROM uniqueue.job WHERE finalized_at IS NULL",
        "SELECT count(*) FROM uniqueue.job_parent WHERE outcome IS NULL",
        "SELECT count(*) FROM uniqueue.job WHERE awaited",
    ] {
        eventually!(number(&cluster.direct, open).await == 0, "{}: {open}", number(&cluster.direct, open).await);
    }
    verdict(&cluster.direct, graphs).await;
    println!("graphs: {restarts} restarts of the database");
    drop(runners);
    cluster.stop().await;
}

async fn verdict(pool: &PgPool, graphs: u64) {
    let wrong = "SELECT count(*) FROM uniqueue.release_log WHERE NOT allowed";
    assert_eq!(number(pool, wrong).await, 0, "released against its parents");
    let twice = "SELECT count(*) - count(DISTINCT child) FROM uniqueue.release_log";
    assert_eq!(number(pool, twice).await, 0, "released twice");
    let released = number(pool, "SELECT count(*) FROM uniqueue.release_log").await;
    assert!(released > graphs as i64 / 2, "{released}");
    // A child that was not released was cancelled by hand, or its parents forbid it.
    let unreleased = "SELECT count(*)
        FROM (
            SELECT
                e.child,
                bool_and(e.condition <> 'completed' OR e.outcome = 'completed')
                    AND bool_or(e.outcome <> 'completed') FILTER (WHERE e.condition = 'failed') IS NOT FALSE AS allowed
            FROM uniqueue.job_parent AS e
            GROUP BY e.child
        ) AS c
        WHERE c.allowed
            AND c.child NOT IN (SELECT l.child FROM uniqueue.release_log AS l)
            AND c.child NOT IN (SELECT h.id FROM uniqueue.cancelled_by_hand AS h)";
    assert_eq!(number(pool, unreleased).await, 0, "never released");
    println!("graphs: {released} children released");
}

/// Four clients that insert graphs.
async fn insert_all(client: &Client, seed: u64, graphs: u64, fan_in: u64) {
    let insert = |number: u64| insert(client, Dice::new(seed, 100 + number), graphs / 4, fan_in);
    tokio::join!(insert(0), insert(1), insert(2), insert(3));
}
