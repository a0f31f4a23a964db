//! Random graphs of jobs under runners that are killed, while operators cancel and retry: every child is released once, and
//! only when its parents allow it, or cancelled because its parents forbid it. No child is stuck.

use std::time::Duration;

use tokio::time::sleep;
use uniqueue::{JobId, NewJob, UniqueKey};

use support::dice::Dice;
use support::process::{Order, RunnerProcess};
use support::work::{Deed, Work};
use support::{Database, soak};

/// Logs each release of a child, and whether its parents allowed it then; and each job that an operator cancelled.
const WATCH: [&str; 4] = [
    "CREATE TABLE {schema}.release_log (child uuid NOT NULL, allowed boolean NOT NULL)",
    "CREATE TABLE {schema}.cancelled_by_hand (id uuid NOT NULL)",
    "CREATE FUNCTION {schema}.log_release() RETURNS trigger LANGUAGE plpgsql SET search_path = {schema} AS $$
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
    "CREATE TRIGGER log_release AFTER UPDATE ON {schema}.job FOR EACH ROW
     WHEN (OLD.state = 'pending' AND NEW.state IN ('available', 'scheduled')) EXECUTE FUNCTION {schema}.log_release()",
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

async fn insert(database: &Database, mut dice: Dice, graphs: u64, fan_in: u64) {
    for _ in 0..graphs {
        let inserted = database.client.insert_many(graph(&mut dice, fan_in)).await.unwrap();
        // Now and then a child of an earlier job, which may be waiting, running or final.
        let parent = &inserted[dice.below(inserted.len() as u64) as usize];
        if dice.percent(30) {
            database.client.insert(deed(&mut dice).after_final(parent)).await.unwrap();
        }
        sleep(dice.millis(1, 10)).await;
    }
}

/// Cancels and retries jobs by hand.
async fn operate(database: &Database, mut dice: Dice) {
    loop {
        sleep(dice.millis(20, 120)).await;
        let (states, retries) = match dice.percent(50) {
            true => ("'pending', 'available', 'running'", false),
            false => ("'discarded', 'cancelled', 'completed'", true),
        };
        let some = format!("SELECT id FROM {{schema}}.job WHERE state IN ({states}) ORDER BY random() LIMIT 2");
        let ids: Vec<uuid::Uuid> = sqlx::query_scalar(database.sql(&some)).fetch_all(database.pool()).await.unwrap();
        let ids: Vec<_> = ids.into_iter().map(JobId::from).collect();
        if retries {
            database.client.retry(ids).await.unwrap();
        } else {
            for id in ids {
                let cancel = format!(
                    "INSERT INTO {{schema}}.cancelled_by_hand SELECT id FROM {{schema}}.cancel_jobs('{{{id}}}')"
                );
                database.execute(&cancel).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_child_runs_exactly_when_its_parents_allow_while_runners_are_killed() {
    let database = Database::alone(10).await;
    for statement in WATCH {
        database.execute(statement).await;
    }
    let seed = u64::from(std::process::id());
    // 10,000 graphs take about twenty minutes, so UNIQUEUE_GRAPHS sets their number.
    let own = std::env::var("UNIQUEUE_GRAPHS").ok().map(|graphs| graphs.parse().expect("UNIQUEUE_GRAPHS: a number"));
    let graphs = own.unwrap_or_else(|| soak(60, 300));
    let (fan_in, kills) = (soak(60, 1_000), usize::try_from((graphs / 25).clamp(4, 60)).unwrap());
    println!("graphs: {graphs}, seed {seed}");
    let order =
        |name: &str| Order { lease: Duration::from_secs(1), ..Order::new(&database.url, &database.schema, name) };
    let mut runners = [RunnerProcess::start(&order("one")), RunnerProcess::start(&order("two"))];
    let work = async {
        let inserting = insert_all(&database, seed, graphs, fan_in);
        let killing = async {
            let mut dice = Dice::new(seed, 7);
            for kill in 0..kills {
                sleep(dice.millis(300, 1_200)).await;
                runners[kill % 2].kill();
                runners[kill % 2] = RunnerProcess::start(&order(&format!("{kill}")));
            }
        };
        tokio::join!(inserting, killing);
    };
    tokio::select! {
        () = work => {}
        () = operate(&database, Dice::new(seed, 9)) => {}
    }
    database.until("SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL", 0).await;
    database.until("SELECT count(*) FROM {schema}.job_parent WHERE outcome IS NULL", 0).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE awaited", 0).await;

    let wrong = "SELECT count(*) FROM {schema}.release_log WHERE NOT allowed";
    assert_eq!(database.number(wrong).await, 0, "released against its parents");
    let twice = "SELECT count(*) - count(DISTINCT child) FROM {schema}.release_log";
    assert_eq!(database.number(twice).await, 0, "released twice");
    let released = database.number("SELECT count(*) FROM {schema}.release_log").await;
    assert!(released > graphs as i64 / 2, "{released}");
    // A child that was not released was cancelled by hand, or its parents forbid it.
    let unreleased = "SELECT count(*)
        FROM (
            SELECT
                e.child,
                bool_and(e.condition <> 'completed' OR e.outcome = 'completed')
                    AND bool_or(e.outcome <> 'completed') FILTER (WHERE e.condition = 'failed') IS NOT FALSE AS allowed
            FROM {schema}.job_parent AS e
            GROUP BY e.child
        ) AS c
        WHERE c.allowed
            AND c.child NOT IN (SELECT l.child FROM {schema}.release_log AS l)
            AND c.child NOT IN (SELECT h.id FROM {schema}.cancelled_by_hand AS h)";
    assert_eq!(database.number(unreleased).await, 0, "never released");
    println!("graphs: {released} children released");
}

/// Four clients that insert graphs.
async fn insert_all(database: &Database, seed: u64, graphs: u64, fan_in: u64) {
    let insert = |number: u64| insert(database, Dice::new(seed, 100 + number), graphs / 4, fan_in);
    tokio::join!(insert(0), insert(1), insert(2), insert(3));
}
