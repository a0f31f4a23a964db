//! Random graphs of jobs with every answer to a duplicate and with expiry, under runners that are killed and a database that
//! crashes, while operators cancel jobs and retry jobs and graphs. Every child is released and started only when its parents
//! allow it, or cancelled because its parents forbid it. No child is stuck, and no key is claimed twice.
//!
//! `UNIQUEUE_GRAPHS` sets the number of graphs. 20,000 take about ten minutes. `UNIQUEUE_GRAPHS_SEED` repeats the choices.

use tokio::time::sleep;

use crate::chaos::verdict::observe;
use support::prelude::*;
use support::process::application_pool;

/// Logs each release and each start of a child, and whether its parents allowed it then; each end of a job, and whether
/// another job replaced it; and each job that an operator cancelled.
const WATCH: [&str; 7] = [
    "CREATE TABLE uniqueue.release_log (child uuid NOT NULL, state uniqueue.job_state NOT NULL, allowed boolean)",
    "CREATE TABLE uniqueue.cancelled_by_hand (id uuid NOT NULL)",
    "CREATE TABLE uniqueue.end_log (id uuid NOT NULL, state uniqueue.job_state NOT NULL, is_replaced boolean NOT NULL)",
    "CREATE FUNCTION uniqueue.log_end() RETURNS trigger LANGUAGE plpgsql SET search_path = uniqueue AS $$
    BEGIN
        INSERT INTO end_log VALUES (NEW.id, NEW.state, NEW.replaced_by IS NOT NULL);
        RETURN NULL;
    END
    $$",
    "CREATE TRIGGER log_end AFTER UPDATE ON uniqueue.job FOR EACH ROW
     WHEN (OLD.finalized_at IS NULL AND NEW.finalized_at IS NOT NULL) EXECUTE FUNCTION uniqueue.log_end()",
    "CREATE FUNCTION uniqueue.log_release() RETURNS trigger LANGUAGE plpgsql SET search_path = uniqueue AS $$
    BEGIN
        INSERT INTO release_log
        SELECT
            NEW.id,
            NEW.state,
            bool_and(e.outcome IS NOT NULL AND (e.condition <> 'completed' OR e.outcome = 'completed'))
                AND bool_or(e.outcome <> 'completed') FILTER (WHERE e.condition = 'failed') IS NOT FALSE
        FROM job_parent AS e
        WHERE e.child = NEW.id
        HAVING count(*) > 0;
        RETURN NULL;
    END
    $$",
    "CREATE TRIGGER log_release AFTER UPDATE ON uniqueue.job FOR EACH ROW
     WHEN (OLD.state = 'pending' AND NEW.state IN ('available', 'scheduled') OR OLD.state = 'available' AND NEW.state = 'running')
     EXECUTE FUNCTION uniqueue.log_release()",
];

fn deed(dice: &mut Dice) -> NewJob {
    let deed = match dice.below(10) {
        0 => Deed::Discard,
        1 => Deed::Cancel,
        2 => Deed::Fail,
        3 => Deed::Output,
        _ => Deed::Plain,
    };
    let job = NewJob::from(Work { deed, millis: dice.below(20) });
    if dice.percent(10) { job.expires_in(dice.millis(50, 2_000)) } else { job }
}

/// A key that jobs of all graphs share. `may_replace`: a job with parents does not replace another, which could close a circle.
fn shared_key(dice: &mut Dice, may_replace: bool) -> UniqueKey {
    let key = UniqueKey::raw(format!("shared {}", dice.below(20)));
    match dice.below(if may_replace { 7 } else { 4 }) {
        0 => key,
        1 => key.on_conflict(OnConflict::Reject),
        2 => key.scope(UniqueScope::Queued).on_conflict(OnConflict::RunAgain),
        3 => key.update(Update::merge()),
        4 => key.on_conflict(OnConflict::Replace),
        5 => key.on_conflict(OnConflict::ReplaceExceptSchedule),
        _ => key.on_conflict(OnConflict::Preempt),
    }
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
        let last = place + 1 == size;
        let earlier: Vec<&NewJob> = match shape {
            0 => jobs.last().into_iter().collect(),
            1 if last => jobs.iter().collect(),
            1 => Vec::new(),
            2 if last => jobs.iter().skip(1).collect(),
            2 => jobs.first().into_iter().collect(),
            _ => jobs.iter().filter(|_| dice.percent(30)).collect(),
        };
        if dice.percent(15) {
            job = job.unique_key(shared_key(dice, earlier.is_empty()));
        }
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

/// Sends a call again until it is answered: the database is away at times. `None`: a duplicate was rejected.
async fn until_answered<T, F: Future<Output = uniqueue::Result<T>>>(call: impl Fn() -> F) -> Option<T> {
    loop {
        match call().await {
            Ok(answer) => return Some(answer),
            Err(Error::Rejected(_)) => return None,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Inserts graphs. An insert whose answer was lost is sent again with the same ids.
async fn insert(client: &Client, mut dice: Dice, graphs: u64, fan_in: u64) {
    for _ in 0..graphs {
        let jobs: Vec<_> = graph(&mut dice, fan_in).into_iter().map(|job| job.id(JobId::generate())).collect();
        let Some(inserted) = until_answered(async || client.insert_many(jobs.clone()).await).await else { continue };
        // Now and then a child of an earlier job, which may be waiting, running or final.
        let parent = &inserted[dice.below(inserted.len() as u64) as usize];
        if dice.percent(30) {
            let child = deed(&mut dice).after_final(parent).id(JobId::generate());
            until_answered(async || client.insert(child.clone()).await).await;
        }
        sleep(dice.millis(1, 10)).await;
    }
}

/// Cancels and retries jobs and graphs by hand. A change that a crash of the database undoes is not repeated.
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
        if retries && dice.percent(50) {
            for id in ids {
                let _ = client.retry_graph(JobId::from(id)).await;
            }
        } else if retries {
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
    let setting = |name: &str| std::env::var(name).ok().map(|given| given.parse().expect(name));
    let seed = setting("UNIQUEUE_GRAPHS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let graphs = setting("UNIQUEUE_GRAPHS").unwrap_or_else(|| soak(60, 300));
    let (fan_in, faults) = (soak(60, 1_000), usize::try_from((graphs / 25).clamp(4, 60)).unwrap());
    println!("graphs: {graphs}, UNIQUEUE_GRAPHS_SEED={seed}");
    let (is_over, looks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let observer = tokio::spawn(observe(application_pool(&url, 2), Arc::clone(&is_over), Arc::clone(&looks)));
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
    // What waits for the retry of a parent waits for an operator.
    let cancel = "INSERT INTO uniqueue.cancelled_by_hand
        SELECT c.id FROM uniqueue.cancel_jobs(ARRAY(SELECT e.child FROM uniqueue.job_parent AS e WHERE e.refused_end IS NOT NULL)) AS c";
    for open in [
        "SELECT count(*) FROM uniqueue.job WHERE finalized_at IS NULL",
        "SELECT count(*) FROM uniqueue.job_parent WHERE outcome IS NULL AND refused_end IS NULL",
        "SELECT count(*) FROM uniqueue.job WHERE awaited",
    ] {
        eventually!(
            sqlx::query(cancel).execute(&cluster.direct).await.is_ok() && number(&cluster.direct, open).await == 0,
            "{}: {open}",
            number(&cluster.direct, open).await
        );
    }
    is_over.store(true, Ordering::Relaxed);
    observer.await.unwrap();
    verdict(&cluster.direct, graphs).await;
    assert!(looks.load(Ordering::Relaxed) > 0);
    println!("graphs: {restarts} restarts of the database");
    drop(runners);
    cluster.stop().await;
}

async fn verdict(pool: &PgPool, graphs: u64) {
    for (wrong, what) in [
        (
            "SELECT count(*) FROM uniqueue.release_log WHERE allowed IS NOT TRUE AND state <> 'running'",
            "released against its parents",
        ),
        (
            "SELECT count(*) FROM uniqueue.release_log WHERE allowed IS NOT TRUE AND state = 'running'",
            "started before the condition of its parents",
        ),
        (
            "SELECT count(*) FROM (
                SELECT FROM chaos.change AS c
                GROUP BY c.job
                HAVING count(*) FILTER (WHERE c.old = 'pending' AND c.new IN ('available', 'scheduled'))
                    > 1 + count(*) FILTER (WHERE c.new = 'pending')
             ) AS t",
            "released twice",
        ),
        (
            "SELECT count(*) FROM uniqueue.job_parent AS e
             WHERE NOT EXISTS (
                SELECT FROM uniqueue.end_log AS l WHERE l.id = e.parent AND l.state = e.outcome AND NOT l.is_replaced
             ) AND e.outcome IS NOT NULL",
            "an outcome that the parent never had",
        ),
        ("SELECT count(*) FROM chaos.change WHERE new = 'running' AND old <> 'available'", "started twice"),
    ] {
        assert_eq!(number(pool, wrong).await, 0, "{what}");
    }
    let released = number(pool, "SELECT count(*) FROM uniqueue.release_log WHERE state <> 'running'").await;
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
        INNER JOIN uniqueue.job AS j ON j.id = c.child AND j.state = 'cancelled' AND j.replaced_by IS NULL
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
