//! Small pools and exhausted pools block neither the runner nor its maintenance.

use tokio::task::JoinHandle;

use support::prelude::*;

/// So long that a heartbeat can be seconds late on a busy machine, and still be in time.
const LEASE: Duration = Duration::from_secs(5);

/// Looks again and again how much of its lease the only runner has left. Answers with the least.
struct Watch {
    is_over: Arc<AtomicBool>,
    watching: JoinHandle<f64>,
}

impl Watch {
    fn begin(database: &Database) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, pool) = (is_over.clone(), database.pool().clone());
        let left = database.sql(
            "SELECT count(*) AS lives, extract(epoch FROM min(leased_until) - clock_timestamp())::float8 AS left
             FROM {schema}.runner",
        );
        let watching = tokio::spawn(async move {
            let mut least = f64::MAX;
            while !over.load(Ordering::Relaxed) {
                let row = sqlx::query(left.clone()).fetch_one(&pool).await.unwrap();
                assert_eq!(row.get::<i64, _>("lives"), 1, "the lease was lost, or there is no runner");
                least = least.min(row.get("left"));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            least
        });
        Self { is_over, watching }
    }

    async fn end(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        Duration::from_secs_f64(self.watching.await.unwrap().max(0.0))
    }
}

/// Takes a connection of the pool for a while, and often two things at once.
async fn busy(job: RunningJob<Task>) -> Result<Outcome, BoxError> {
    let pool = job.client().pool();
    sqlx::query("SELECT pg_sleep(0.01)").execute(pool).await?;
    match job.args.n % 4 {
        0 if job.attempt() < 3 => Err("not yet".into()),
        1 if job.attempt() == 1 && job.row().meta.is_empty() => {
            let mut tx = pool.begin().await?;
            sqlx::query("SELECT pg_sleep(0.01)").execute(&mut *tx).await?;
            job.complete_in(&mut tx).await?;
            tx.commit().await?;
            Ok(Outcome::complete())
        }
        _ => Ok(Outcome::complete()),
    }
}

async fn works_four_queues(connections: u32, jobs: u32) {
    let database = Database::new().await;
    let client = database.client_at(&database.url, connections).await;
    let mut runner = Runner::new(client)
        .lease(LEASE)
        .retry_policy(uniqueue::RetryPolicy::fixed(Duration::from_millis(100)))
        .retention(Retention::forever().cancelled(Duration::ZERO))
        .prune_interval(Duration::from_millis(200))
        .worker(busy);
    let queues = ["a", "b", "c", "d"];
    for queue in queues {
        runner = runner.queue(queue, 10);
    }
    // For every service of maintenance something to do: two dead runner's jobs, and some to prune.
    let lost = database.client.insert_many((2..4).map(|n| NewJob::from(Task { n }).queue("a"))).await.unwrap();
    for job in &lost {
        database.set_state(job.id(), "running").await;
    }
    let old = database.client.insert_many((0..5).map(|n| NewJob::from(Task { n }).queue("b"))).await.unwrap();
    for job in &old {
        database.set_state(job.id(), "cancelled").await;
    }
    let runner = runner.start().await.unwrap();
    let watch = Watch::begin(&database);
    let mut all = Vec::new();
    for n in 0..jobs {
        let mut job = NewJob::from(Task { n }).queue(queues[n as usize % 4]);
        if n % 5 == 0 {
            job = job.scheduled_in(Duration::from_millis(u64::from(n) * 5));
        }
        all.push(job);
    }
    let all = database.client.insert_many(all).await.unwrap();
    for job in all.iter().chain(&lost) {
        database.until_state(job.id(), JobState::Completed).await;
    }
    eventually!(
        database.number("SELECT count(*) FROM {schema}.job WHERE state = 'cancelled'").await == 0,
        "nothing is pruned"
    );
    let least = watch.end().await;
    // It beats four times a term: three quarters are left at a beat, less when it comes late.
    assert!(least > LEASE / 5, "a heartbeat came late: {least:?} left");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE errors::text LIKE '%rescued%'").await, 2);
    let late = "SELECT max(extract(epoch FROM attempted_at - scheduled_at) * 1000)::bigint
        FROM {schema}.job WHERE attempt = 1 AND scheduled_at > created_at";
    // Due, promoted within a second, and then its turn behind others.
    assert!(database.number(late).await < 10_000, "{} ms late", database.number(late).await);
    timeout(WAIT, runner.stop()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_pool_of_three_is_enough_for_four_queues_and_all_maintenance() {
    works_four_queues(3, 400).await;
}

#[tokio::test]
async fn a_pool_of_one_is_enough_for_four_queues_and_all_maintenance() {
    works_four_queues(1, 100).await;
}

#[support::test]
async fn an_application_that_holds_its_whole_pool_for_longer_than_a_lease_costs_no_job(database: Database) {
    let client = database.client_at(&database.url, 2).await;
    let runner = quick(&client).lease(LEASE).worker(at_once).start().await.unwrap();
    let first = database.client.insert(Task { n: 1 }).await.unwrap();
    database.until_state(first.id(), JobState::Completed).await;
    let watch = Watch::begin(&database);
    let held = hold_all(client.pool()).await;
    let began = Instant::now();
    let mut n = 0;
    while began.elapsed() < LEASE * 3 / 2 {
        n += 1;
        let job = database.client.insert(Task { n }).scheduled_in(Duration::from_millis(50)).await.unwrap();
        let row = database.until_state(job.id(), JobState::Completed).await;
        assert_eq!((row.attempt, row.worker), (1, Some(runner.id())));
    }
    let least = watch.end().await;
    assert!(least > LEASE / 5, "a heartbeat came late: {least:?} left");
    drop(held);
    runner.stop().await.unwrap();
}

async fn hold_all(pool: &PgPool) -> Vec<sqlx::pool::PoolConnection<sqlx::Postgres>> {
    let mut held = Vec::new();
    for _ in 0..pool.options().get_max_connections() {
        held.push(pool.acquire().await.unwrap());
    }
    assert!(pool.try_acquire().is_none());
    held
}
