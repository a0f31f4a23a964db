//! Holds: by workers that are told to slow down, and by operators.

use uniqueue_admin::{HeldGroup, List, ObstacleCode};

use super::{HISTORY, LEFT};
use support::prelude::*;

/// Holds what `hold` says, at its first run.
#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "call")]
struct Call {
    hold: Option<Held>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
enum Held {
    Queue { millis: u64 },
    Group { millis: u64 },
}

/// When jobs ran, and when one held the rest.
#[derive(Clone, Default)]
struct Log {
    ran: Arc<Mutex<Vec<Instant>>>,
    held: Arc<Mutex<Option<Instant>>>,
}

async fn start(database: &Database, concurrency: usize, log: &Log) {
    let log = log.clone();
    let call = move |job: RunningJob<Call>| {
        let log = log.clone();
        async move {
            let now = Instant::now();
            log.ran.lock().unwrap().push(now);
            match job.args.hold {
                Some(hold) if *log.held.lock().unwrap().get_or_insert(now) == now => match hold {
                    Held::Queue { millis } => Outcome::hold_queue(Duration::from_millis(millis)),
                    Held::Group { millis } => Outcome::hold_group(Duration::from_millis(millis)),
                },
                _ => Outcome::complete(),
            }
        }
    };
    database.start(database.runner().queue("default", concurrency).poll_interval(HOUR).worker(call)).await;
}

fn call() -> NewJob {
    NewJob::from(Call { hold: None })
}

#[support::test(with(HISTORY))]
async fn a_worker_that_holds_its_queue_holds_the_rest_back_on_every_runner(database: Database, client: &Client) {
    let hold = client.insert(Call { hold: Some(Held::Queue { millis: 1_500 }) }).priority(1).await.unwrap().id();
    client.insert_many((0..20).map(|_| call())).await.unwrap();
    let log = Log::default();
    start(&database, 1, &log).await;
    database.until("SELECT count(*) FROM {schema}.queue WHERE held_until > clock_timestamp()", 1).await;
    start(&database, 5, &log).await;
    database.until(LEFT, 0).await;
    let settings = client.queue("default").settings().await.unwrap();
    assert_eq!(settings.held_until, None, "it has passed");
    // What the first runner fetched before it recorded the hold, and nothing else.
    let during = "SELECT count(*) FROM {schema}.start_log AS h, {schema}.queue AS q
        WHERE h.at > q.held_until - interval '1200 ms' AND h.at < q.held_until";
    assert_eq!(database.number(during).await, 0, "starts while the queue was held");
    let late = "SELECT (extract(epoch FROM min(h.at) - min(q.held_until)) * 1000)::bigint
        FROM {schema}.start_log AS h, {schema}.queue AS q WHERE h.at >= q.held_until";
    let late = database.number(late).await;
    assert!(late < 1_000, "the queue went on {late} ms after the hold");
    let job = client.job(hold).await.unwrap().unwrap();
    assert_eq!(job.attempt, 1, "the first run used up no attempt");
}

#[support::test(with(HISTORY))]
async fn jobs_that_were_fetched_ahead_of_a_hold_are_given_back(database: Database, client: &Client) {
    client.insert_many((0..2_000).map(|_| call())).await.unwrap();
    let log = Log::default();
    start(&database, 2, &log).await;
    // The runner is quick by now, and fetches ahead.
    database.until("SELECT least(count(*), 1500) FROM {schema}.job WHERE state = 'completed'", 1_500).await;
    let hold = Call { hold: Some(Held::Queue { millis: 2_000 }) };
    client.insert(hold).priority(1).await.unwrap();
    client.insert_many((0..20_000).map(|_| call())).await.unwrap();
    database.until(LEFT, 0).await;
    let held = log.held.lock().unwrap().unwrap();
    let (from, to) = (held + Duration::from_millis(500), held + Duration::from_millis(1_900));
    let ran = log.ran.lock().unwrap().iter().filter(|at| (from..to).contains(*at)).count();
    assert_eq!(ran, 0, "jobs ran while the queue was held");
}

#[support::test(with(HISTORY))]
async fn a_worker_that_holds_its_group_holds_no_other_back(database: Database, client: &Client) {
    client.insert(Call { hold: Some(Held::Group { millis: 1_500 }) }).group("a").priority(1).await.unwrap();
    let log = Log::default();
    start(&database, 2, &log).await;
    database.until("SELECT count(*) FROM {schema}.queue_group WHERE held_until > clock_timestamp()", 1).await;
    client.insert_many((0..20).map(|n| call().group(if n % 2 == 0 { "a" } else { "b" }))).await.unwrap();
    client.insert_many((0..10).map(|_| call())).await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 20).await;
    let groups = Admin::new(client).groups().queue("default").await.unwrap();
    assert_eq!(groups.len(), 1, "{groups:?}");
    let held_by = groups[0].held_by.as_ref().map(|obstacle| obstacle.code);
    assert_eq!((groups[0].group.as_str(), held_by), ("a", Some(ObstacleCode::GroupHeld)));
    assert!(groups[0].held_until.is_some());
    database.until(LEFT, 0).await;
    let during = "SELECT count(*) FROM {schema}.start_log AS h, {schema}.queue_group AS g
        WHERE h.group_key = 'a' AND h.at > g.held_until - interval '1200 ms' AND h.at < g.held_until";
    assert_eq!(database.number(during).await, 0, "starts while the group was held");
}

#[support::test(with(HISTORY))]
async fn a_job_without_a_group_that_holds_its_group_only_waits_itself(database: Database, client: &Client) {
    client.insert(Call { hold: Some(Held::Group { millis: 3_600_000 }) }).priority(1).await.unwrap();
    client.insert_many((0..10).map(|n| if n % 2 == 0 { call() } else { call().group("a") })).await.unwrap();
    let log = Log::default();
    start(&database, 1, &log).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 10).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'scheduled' AND attempt = 0", 1).await;
    assert_eq!(database.number("SELECT count(*) FROM {schema}.queue_group").await, 0);
}

#[support::test(with(HISTORY))]
async fn an_operator_s_hold_ends_when_the_queue_or_the_group_is_resumed(database: Database, client: &Client) {
    let queue = client.queue("default");
    let until = queue.hold(HOUR).await.unwrap().held_until;
    assert!(until.is_some());
    assert_eq!(queue.hold(Duration::from_secs(1)).await.unwrap().held_until, until, "a later end stays");
    queue.hold_group("a", HOUR).await.unwrap();
    let names = async |list: List<'_, HeldGroup>| {
        list.await.unwrap().into_iter().map(|held| (held.queue.to_string(), held.group)).collect::<Vec<_>>()
    };
    let a = ("default".to_owned(), "a".to_owned());
    assert_eq!(names(Admin::new(client).held_groups()).await, std::slice::from_ref(&a), "also without a job");
    assert_eq!(names(Admin::new(client).held_groups().of("default", "a")).await, std::slice::from_ref(&a));
    assert_eq!(names(Admin::new(client).held_groups().of("default", "b")).await, []);
    assert_eq!(names(Admin::new(client).held_groups().queue("other")).await, []);
    client.insert(call()).await.unwrap();
    client.insert(call().group("a")).await.unwrap();
    let log = Log::default();
    start(&database, 2, &log).await;
    database.until("SELECT count(*) FROM {schema}.runner WHERE idle", 1).await;
    assert!(log.ran.lock().unwrap().is_empty());
    assert_eq!(queue.resume().await.unwrap().held_until, None);
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 1).await;
    assert!(queue.resume_group("a").await.unwrap());
    assert!(!queue.resume_group("a").await.unwrap(), "it is not held any more");
    assert_eq!(names(Admin::new(client).held_groups()).await, []);
    database.until(LEFT, 0).await;
    let refused = queue.hold_group("", HOUR).await.unwrap_err().to_string();
    assert_eq!(refused, "invalid group: must be 1 to 512 bytes: 0");
    // The longest that there is.
    assert!(queue.hold(Duration::MAX).await.unwrap().held_until.is_some());
}

#[support::test]
async fn a_hold_waits_for_an_open_change_of_its_queue_and_other_results_do_not(database: Database, client: &Client) {
    let mut tx = database.pool().begin().await.unwrap();
    client.queue("default").set(QueueChanges::new().fair(false)).tx(&mut tx).await.unwrap();
    client.insert(Call { hold: Some(Held::Queue { millis: 50 }) }).priority(1).await.unwrap();
    client.insert_many((0..10).map(|_| call())).await.unwrap();
    let log = Log::default();
    start(&database, 11, &log).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 10).await;
    tx.commit().await.unwrap();
    let began = Instant::now();
    database.until(LEFT, 0).await;
    assert!(began.elapsed() < WAIT);
}

#[support::test(with(HISTORY))]
async fn an_open_hold_of_a_group_holds_up_no_other_queue_and_deadlocks_with_no_fetch(database: Database) {
    let client = &database.client;
    let queue = client.queue("default");
    queue.set(QueueChanges::new().group_rate(Some(Rate::per(1_000, Duration::from_secs(1))))).await.unwrap();
    // The group has no row yet: a fetch would wait for the one of the open transaction.
    let mut tx = database.pool().begin().await.unwrap();
    queue.hold_group("a", HOUR).tx(&mut tx).await.unwrap();
    client.insert_many((0..20).map(|_| call().group("a"))).await.unwrap();
    client.insert_many((0..20).map(|_| call().queue("other"))).await.unwrap();
    let log = Log::default();
    let others = log.clone();
    let call = move |_: RunningJob<Call>| {
        let others = others.clone();
        async move { others.ran.lock().unwrap().push(Instant::now()) }
    };
    database.start(Runner::new(client.clone()).queue("default", 2).queue("other", 2).worker(call)).await;
    let began = Instant::now();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND queue = 'other'", 20).await;
    assert!(began.elapsed() < soak(5, 25) * Duration::from_secs(1), "a fetch waited for the open transaction");
    // The queue comes after its group here, and fetches have waited for it meanwhile.
    client.queue("default").hold(HOUR).tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    queue.resume().await.unwrap();
    client.insert(self::call().group("b")).await.unwrap();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 21).await;
    let of_a = "SELECT count(*) FROM {schema}.start_log WHERE group_key = 'a'";
    assert_eq!(database.number(of_a).await, 0, "a job of the held group started");
    assert!(queue.resume_group("a").await.unwrap());
    database.until(LEFT, 0).await;
}

#[support::test(with(HISTORY))]
async fn a_hold_that_waits_for_a_lock_keeps_no_other_result_waiting(database: Database, client: &Client) {
    let queue = client.queue("default");
    let mut tx = database.pool().begin().await.unwrap();
    queue.hold(Duration::ZERO).tx(&mut tx).await.unwrap();
    client.insert(Call { hold: Some(Held::Queue { millis: 3_600_000 }) }).priority(1).await.unwrap();
    client.insert_many((0..9).map(|_| call())).await.unwrap();
    // All ten results come at once.
    let barrier = Arc::new(Barrier::new(10));
    let call = move |job: RunningJob<Call>| {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            match job.args.hold {
                Some(_) => Outcome::hold_queue(HOUR),
                None => Outcome::complete(),
            }
        }
    };
    database.start(Runner::new(client.clone()).queue("default", 10).worker(call)).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state IN ('running', 'completed')", 10).await;
    let began = Instant::now();
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 9).await;
    assert!(began.elapsed() < soak(1, 3) * Duration::from_secs(1), "results waited for the hold");
    assert_eq!(database.number(LEFT).await, 1);
    tx.commit().await.unwrap();
    database
        .until("SELECT count(*) FROM {schema}.queue WHERE held_until > clock_timestamp() + interval '50 min'", 1)
        .await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'scheduled' AND attempt = 0", 1).await;
}
