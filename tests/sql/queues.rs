//! Queues: pauses, limits over all runners, and the list of queues.

use support::prelude::*;
use uniqueue::{Keep, QueueSettings};
use uniqueue_admin::ObstacleCode;

/// The state that the workers of a test share: the started jobs, and the permission to end.
#[derive(Clone)]
struct Gate {
    started: mpsc::UnboundedSender<u32>,
    leave: Arc<Semaphore>,
}

impl Gate {
    fn new() -> (Self, mpsc::UnboundedReceiver<u32>) {
        let (started, receiver) = mpsc::unbounded_channel();
        (Self { started, leave: Arc::new(Semaphore::new(0)) }, receiver)
    }

    /// A runner that notifications alone wake, whose jobs wait for leave.
    async fn runner(&self, client: &Client, concurrency: usize) -> RunnerHandle {
        let gate = self.clone();
        let work = move |job: RunningJob<Task>| {
            let gate = gate.clone();
            async move {
                let _ = gate.started.send(job.args.n);
                tokio::select! {
                    leave = gate.leave.acquire() => leave.unwrap().forget(),
                    _ = job.stopped() => {}
                }
            }
        };
        let runner = Runner::new(client.clone()).queue("default", concurrency).queue("other", 1);
        let runner = runner.poll_interval(HOUR).stop_timeout(Duration::ZERO).worker(work);
        runner.start().await.unwrap()
    }
}

async fn until_idle(database: &Database, runners: i64) {
    eventually!(
        database.number("SELECT count(*) FROM {schema}.runner WHERE idle").await >= runners,
        "no runner sleeps"
    );
}

/// Another process's client.
async fn another(database: &Database) -> Client {
    Client::builder().schema(SchemaName::new(&database.schema).unwrap()).pool(database.another_pool(3).await)
}

#[support::test]
async fn a_paused_queue_rests_everywhere_and_goes_on_at_once_when_it_is_resumed(database: Database, client: &Client) {
    let (gate, mut started) = Gate::new();
    let runners = [gate.runner(client, 1).await, gate.runner(&another(&database).await, 1).await];
    until_idle(&database, 2).await;
    let paused_at = client.queue("default").pause().await.unwrap().paused_at;
    assert!(paused_at.is_some());
    assert_eq!(client.queue("default").pause().await.unwrap().paused_at, paused_at, "since then");
    for n in 0..2 {
        client.insert(Task { n }).await.unwrap();
    }
    client.insert(Task { n: 9 }).queue("other").await.unwrap();
    assert_eq!(next(&mut started).await, 9, "other queues go on");
    // Not before the transaction commits.
    let mut tx = database.pool().begin().await.unwrap();
    assert_eq!(client.queue("default").resume().tx(&mut tx).await.unwrap().paused_at, None);
    assert_eq!(client.queue("default").settings().await.unwrap().paused_at, paused_at);
    assert!(started.is_empty());
    tx.commit().await.unwrap();
    let mut both = [next(&mut started).await, next(&mut started).await];
    both.sort_unstable();
    assert_eq!(both, [0, 1]);
    assert_eq!(client.queue("default").resume().await.unwrap().paused_at, None);
    for runner in runners {
        runner.stop().await.unwrap();
    }
}

#[support::test]
async fn a_limit_holds_over_all_runners_at_every_moment(database: Database) {
    const LIMIT: usize = 3;
    const JOBS: u32 = 400;
    for queue in ["default", "other"] {
        let settings = database.client.queue(queue).limit(Some(LIMIT as u32)).await.unwrap();
        assert_eq!((settings.name.as_str(), settings.limit), (queue, Some(3)));
    }
    let running = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let most = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let mut runners = Vec::new();
    for n in 0..5 {
        let (running, most) = (running.clone(), most.clone());
        let work = move |job: RunningJob<Task>| {
            let (running, most) = (running.clone(), most.clone());
            async move {
                let queue = usize::from(job.row().queue.as_str() == "other");
                let now = running[queue].fetch_add(1, Ordering::SeqCst) + 1;
                most[queue].fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(u64::from(job.args.n % 3))).await;
                running[queue].fetch_sub(1, Ordering::SeqCst);
            }
        };
        // Half of them name the queues the other way round: they must not wait for each other in a ring.
        let mut queues = ["default", "other"];
        if n % 2 == 1 {
            queues.reverse();
        }
        let runner = Runner::new(another(&database).await).queue(queues[0], 10).queue(queues[1], 10);
        let runner = runner.poll_interval(Duration::from_millis(5)).worker(work);
        runners.push(runner.start().await.unwrap());
    }
    let jobs = (0..JOBS).map(|n| uniqueue::NewJob::from(Task { n }).queue(["default", "other"][n as usize % 2]));
    database.client.insert_many(jobs).await.unwrap();
    let look = "SELECT coalesce(max(n), 0) FROM (
            SELECT count(*) AS n FROM {schema}.job WHERE state = 'running' GROUP BY queue
        ) AS r";
    let began = Instant::now();
    let mut seen = 0;
    while database.number("SELECT count(*) FROM {schema}.job WHERE state <> 'completed'").await > 0 {
        assert!(began.elapsed() < 3 * WAIT, "the jobs do not end");
        seen = seen.max(database.number(look).await);
    }
    for runner in runners {
        runner.stop().await.unwrap();
    }
    assert!(seen <= LIMIT as i64, "{seen} at once");
    assert_eq!(most.iter().map(|most| most.load(Ordering::SeqCst)).max(), Some(LIMIT));
}

#[support::test]
async fn cancelled_and_rescued_jobs_free_their_places(database: Database, client: &Client) {
    client.queue("default").limit(Some(1)).await.unwrap();
    // One that runs for a runner that is dead.
    let dead = client.insert(Task { n: 0 }).max_attempts(1).await.unwrap().id();
    database.set_state(dead, "running").await;
    database.execute("UPDATE {schema}.job SET attempt = 1").await;
    let first = client.insert(Task { n: 1 }).await.unwrap().id();
    client.insert(Task { n: 2 }).await.unwrap();
    let (gate, mut started) = Gate::new();
    let work = move |job: RunningJob<Task>| {
        let gate = gate.clone();
        async move {
            let _ = gate.started.send(job.args.n);
            job.stopped().await;
        }
    };
    let runner = Runner::new(client.clone()).queue("default", 5).retry_policy(RetryPolicy::fixed(HOUR)).worker(work);
    database.start(runner.stop_timeout(Duration::ZERO).lease(SECOND)).await;
    assert_eq!(next(&mut started).await, 1, "the rescuer freed the place");
    assert_eq!(client.job(dead).await.unwrap().unwrap().state, JobState::Discarded);
    client.cancel(first).await.unwrap();
    assert_eq!(next(&mut started).await, 2);
    assert!(started.is_empty());
}

#[support::test]
async fn a_place_that_another_runner_leaves_is_taken_however_rarely_the_runner_polls(database: Database) {
    let client = &database.client;
    client.queue("default").limit(Some(1)).await.unwrap();
    let (gate, mut started) = Gate::new();
    let first = gate.runner(client, 1).await;
    client.insert(Task { n: 0 }).await.unwrap();
    assert_eq!(next(&mut started).await, 0);
    let second = gate.runner(&another(&database).await, 1).await;
    client.insert(Task { n: 1 }).await.unwrap();
    until_idle(&database, 2).await;
    // The first stops: its job ends, and it takes no other.
    let stopping = tokio::spawn(first.stop());
    assert_eq!(next(&mut started).await, 1);
    stopping.await.unwrap().unwrap();
    second.stop().await.unwrap();
}

#[support::test]
async fn a_higher_limit_wakes_idle_runners_and_a_lower_one_waits_for_what_runs(database: Database, client: &Client) {
    client.queue("default").limit(Some(1)).await.unwrap();
    let (gate, mut started) = Gate::new();
    let runner = gate.runner(client, 10).await;
    for n in 0..6 {
        client.insert(Task { n }).await.unwrap();
    }
    next(&mut started).await;
    until_idle(&database, 1).await;
    assert!(started.is_empty());
    assert_eq!(client.queue("default").limit(Some(3)).await.unwrap().limit, Some(3));
    next(&mut started).await;
    next(&mut started).await;
    client.queue("default").limit(Some(2)).await.unwrap();
    until_idle(&database, 1).await;
    // Of three two must end before the next begins.
    gate.leave.add_permits(1);
    let completed = "SELECT count(*) FROM {schema}.job WHERE state = 'completed'";
    eventually!(database.number(completed).await >= 1);
    until_idle(&database, 1).await;
    assert!(started.is_empty());
    gate.leave.add_permits(1);
    next(&mut started).await;
    assert_eq!(client.queue("default").limit(None).await.unwrap().limit, None);
    next(&mut started).await;
    next(&mut started).await;
    runner.stop().await.unwrap();
}

#[support::test]
async fn a_transaction_that_keeps_a_limited_queue_holds_up_no_other_queue(database: Database, client: &Client) {
    client.queue("default").limit(Some(1)).await.unwrap();
    let mut open = database.pool().begin().await.unwrap();
    client.queue("default").limit(Some(2)).tx(&mut open).await.unwrap();
    client.insert(Task { n: 0 }).await.unwrap();
    client.insert(Task { n: 1 }).queue("other").await.unwrap();
    let (gate, mut started) = Gate::new();
    let runner = gate.runner(client, 1).await;
    assert_eq!(next(&mut started).await, 1);
    open.commit().await.unwrap();
    assert_eq!(next(&mut started).await, 0, "the commit woke the runner");
    runner.stop().await.unwrap();
}

#[support::test]
async fn a_limit_that_cannot_be_kept_is_no_limit_that_is_broken(database: Database) {
    database.client.queue("default").limit(Some(1)).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").execute(&mut *tx).await.unwrap();
    let lock = database.sql("SELECT {schema}._lock_queue('default')");
    let error = sqlx::query(lock).execute(&mut *tx).await.unwrap_err().to_string();
    assert!(error.contains("READ COMMITTED"), "{error}");
    for (name, limit, said) in [("", Some(1), "invalid queue"), ("a", Some(0), "pause"), ("a", Some(u32::MAX), "limit")]
    {
        let error = database.client.queue(name).limit(limit).await.unwrap_err().to_string();
        assert!(error.starts_with("invalid ") && error.contains(said), "{error}");
    }
    assert_eq!(database.client.queue("never heard of").settings().await.unwrap().limit, None);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.queue").await, 1);
}

#[support::test]
async fn the_list_of_queues_has_every_queue_and_counts_no_further_than_told(database: Database, client: &Client) {
    client.queue("c set only").limit(Some(7)).await.unwrap();
    client.queue("b").pause().await.unwrap();
    // The runner is to leave every job in its state.
    let taken = "INSERT INTO {schema}.maintenance (service, leased_until)
        SELECT unnest(ARRAY['promoter', 'rescuer', 'pruner']), 'infinity'";
    database.execute(taken).await;
    let idle = Runner::new(client.clone()).queue("d worked only", 1).worker(|_: RunningJob<Task>| async {});
    let idle = idle.start().await.unwrap();
    for (n, state) in JobState::ALL.into_iter().enumerate() {
        let queue = if n % 2 == 0 { "a" } else { "b" };
        for _ in 0..=n {
            let id = client.insert(job("other").queue(queue)).await.unwrap().id();
            database.set_state(id, state.as_str()).await;
        }
    }
    let age = "UPDATE {schema}.job SET created_at = now() - interval '5 min', scheduled_at = now() - interval '5 min', priority = -3
        WHERE id = (SELECT id FROM {schema}.job WHERE state = 'available' LIMIT 1)";
    database.execute(age).await;
    client.insert(job("other").queue("a").priority(8)).await.unwrap();
    // Seven would do for all but the most.
    let queues = Admin::new(client).queues().count_up_to(7).await.unwrap();
    let names: Vec<_> = queues.iter().map(|queue| queue.settings.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c set only", "d worked only"]);
    let [a, b, c, d] = queues.as_slice() else { panic!("four") };
    assert_eq!((a.settings.limit, c.settings.limit), (None, Some(7)));
    assert!(b.settings.paused_at.is_some() && a.settings.paused_at.is_none());
    assert_eq!((a.runners, d.runners), (0, 1));
    assert!(a.oldest_available_age.unwrap() >= Duration::from_secs(300));
    assert_eq!(b.oldest_available_age, None);
    for (n, state) in JobState::ALL.into_iter().enumerate() {
        let (there, elsewhere) = if n % 2 == 0 { (a, b) } else { (b, a) };
        let expected = match n as u64 + 1 + u64::from(state == JobState::Available) {
            8 => JobCount::About(8),
            counted => JobCount::Exactly(counted),
        };
        assert_eq!(there.count(state), expected, "{state}");
        assert_eq!(elsewhere.count(state), JobCount::Exactly(0), "{state}");
    }
    // What no index knows the queue of is counted among the latest only, and says so.
    let mut tx = database.pool().begin().await.unwrap();
    let sparse = database.sql("SELECT completed, last_are_all FROM {schema}.queues(100, 3) WHERE name = 'a'");
    let (completed, is_all): (i64, bool) = sqlx::query_as(sparse).fetch_one(&mut *tx).await.unwrap();
    assert!(completed <= 3 && !is_all);
    assert_eq!(Admin::new(client).queues().tx(&mut tx).await.unwrap().len(), 4);
    idle.stop().await.unwrap();
}

#[support::test]
async fn an_estimate_takes_the_place_of_a_lower_bound_that_it_exceeds(database: Database, client: &Client) {
    for n in 0..5 {
        let id = client.insert(job(&format!("k{n}"))).await.unwrap().id();
        database.set_state(id, if n < 4 { "available" } else { "running" }).await;
    }
    for (estimate, expected) in
        [(9, JobCount::About(9)), (3, JobCount::About(3)), (2, JobCount::AtLeast(3)), (0, JobCount::AtLeast(3))]
    {
        let estimated = format!(
            "CREATE OR REPLACE FUNCTION {{schema}}._estimated_jobs(pages double precision)
             RETURNS TABLE (queue text, state text, jobs bigint) LANGUAGE sql STABLE
             AS $$ VALUES ('default', 'available', {estimate}::bigint), ('default', 'running', 7) $$"
        );
        database.execute(&estimated).await;
        let queue = Admin::new(client).queues().count_up_to(3).await.unwrap().remove(0);
        assert_eq!((queue.available, queue.running), (expected, JobCount::Exactly(1)));
    }
}

#[support::test]
async fn a_queue_says_how_long_its_jobs_are_kept_and_leaves_it_to_the_runners_again(database: Database) {
    let client = &database.client;
    let none = Retention::forever().completed(Duration::ZERO);
    for (said, is_kept) in [(Keep::For(Duration::ZERO), 0), (Keep::Forever, 1), (Keep::AsRunnersSay, 0)] {
        database.execute("DELETE FROM {schema}.job").await;
        client.queue("default").set(QueueChanges::new().keep_completed(said).keep_discarded(said)).await.unwrap();
        let runner = Runner::new(client.clone()).queue("default", 1).retention(none);
        let mut events = client.events();
        let runner = runner.worker(async |_: RunningJob<Task>| {}).start().await.unwrap();
        client.insert(Task { n: 1 }).await.unwrap();
        while timeout(WAIT, events.recv()).await.unwrap().unwrap().happened.as_str() != "completed" {}
        runner.stop().await.unwrap();
        assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, is_kept, "{said:?}");
    }
    let settings = "SELECT count(*) FROM {schema}.queue WHERE keep_completed IS NULL AND keep_discarded IS NULL";
    assert_eq!(database.number(settings).await, 1);
}

#[support::test]
async fn a_queue_keeps_each_final_state_as_it_was_said_and_two_who_say_it_at_once_lose_nothing(database: Database) {
    let client = &database.client;
    let hour = Keep::For(Duration::from_secs(3_600));
    let asked = client.queue("emails").settings().await.unwrap();
    let kept = |settings: &QueueSettings| [settings.keep_completed, settings.keep_cancelled, settings.keep_discarded];
    assert_eq!(kept(&asked), [Keep::AsRunnersSay; 3]);
    for _ in 0..20 {
        // Also of a queue that has no row yet.
        database.execute("DELETE FROM {schema}.queue").await;
        let say = |changes| client.queue("emails").set(changes).into_future();
        let (short, ever) =
            (QueueChanges::new().keep_completed(hour), QueueChanges::new().keep_discarded(Keep::Forever));
        let (completed, discarded) = tokio::join!(say(short), say(ever));
        completed.unwrap();
        discarded.unwrap();
        let settings = client.queue("emails").settings().await.unwrap();
        assert_eq!(kept(&settings), [hour, Keep::AsRunnersSay, Keep::Forever]);
    }
    client.queue("emails").pause().await.unwrap();
    let settings = client.queue("emails").set(QueueChanges::new().keep_completed(Keep::AsRunnersSay)).await.unwrap();
    assert_eq!(kept(&settings), [Keep::AsRunnersSay, Keep::AsRunnersSay, Keep::Forever]);
    assert!(settings.paused_at.is_some());
    assert_eq!(Admin::new(client).queues().await.unwrap()[0].settings, settings);
}

#[support::test]
async fn a_pause_says_who_paused_why_and_since_when(database: Database, client: &Client) {
    let queue = client.queue("mail");
    let id = client.insert(job("send")).queue("mail").await.unwrap().id();
    queue.pause_because("the provider is down").actor("ada").await.unwrap();
    // The first pause stays, with a newer reason.
    let settings = queue.pause_because("the provider's disk is full").actor("eve").await.unwrap();
    assert_eq!(settings.paused_by.as_deref(), Some("ada"));
    assert_eq!(settings.pause_reason.as_deref(), Some("the provider's disk is full"));
    let why = Admin::new(client)
        .why(id)
        .await
        .unwrap()
        .into_iter()
        .find(|why| why.code == ObstacleCode::QueuePaused)
        .unwrap();
    assert!(why.reason.ends_with(r#" by "ada": "the provider's disk is full"."#), "{}", why.reason);
    assert_eq!((&why.details["by"], why.details.contains_key("since")), (&json!("ada"), true));
    let listed = Admin::new(client).queues().await.unwrap();
    assert_eq!(listed[0].settings, settings);
    let resumed = queue.resume().await.unwrap();
    assert_eq!((resumed.paused_at, resumed.paused_by, resumed.pause_reason), (None, None, None));
    // Without a reason and a name, as before.
    queue.pause().await.unwrap();
    let why = Admin::new(client)
        .why(id)
        .await
        .unwrap()
        .into_iter()
        .find(|why| why.code == ObstacleCode::QueuePaused)
        .unwrap();
    assert!(why.reason.ends_with(" UTC."), "{}", why.reason);
    let error = queue.pause_because("x".repeat(1_001)).await.unwrap_err().to_string();
    assert!(error.contains("reason") && error.contains("1,000 bytes"), "{error}");
}
