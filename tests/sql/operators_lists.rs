//! The lists for operators: runners, stuck jobs, retentions, and the log of changes.

use support::prelude::*;
use uniqueue::Keep;
use uniqueue_admin::ObstacleCode;

#[derive(Debug, serde::Deserialize, serde::Serialize, Job)]
#[job(kind = "task")]
struct Task {}

#[support::test]
async fn a_runner_is_listed_with_its_queues_its_slots_and_its_heartbeat(database: Database, client: &Client) {
    static STARTED: Notify = Notify::const_new();
    let work = async |job: RunningJob<Task>| {
        STARTED.notify_one();
        job.stopped().await;
    };
    let runner = database.runner().name("one").queue("default", 3).queue("mail", 2);
    database.start(runner.retention(Retention::default().completed(MINUTE)).worker(work)).await;
    client.insert(Task {}).await.unwrap();
    timeout(WAIT, STARTED.notified()).await.unwrap();
    let [one] = Admin::new(client).runners().await.unwrap().try_into().unwrap();
    assert_eq!((one.name.as_str(), one.is_alive), ("one", true));
    assert!(one.heartbeat_age.is_some() && one.lease_left.is_some());
    assert_eq!(one.kinds.unwrap()[0].as_str(), "task");
    let queues: Vec<_> = one.queues.iter().map(|queue| (queue.queue.as_str(), queue.slots, queue.running)).collect();
    assert_eq!(queues, [("default", Some(3), 1), ("mail", Some(2), 0)]);
    assert_eq!(one.keep_completed, Some(Keep::For(MINUTE)));
    database.execute("UPDATE {schema}.runner SET leased_until = '-infinity', heartbeat_at = '-infinity'").await;
    let [dead] = Admin::new(client).runners().await.unwrap().try_into().unwrap();
    assert!(!dead.is_alive && dead.lease_left.is_none());
    client.cancel(JobFilter::all()).await.unwrap();
}

#[support::test]
async fn a_stuck_job_is_listed_with_its_reason_and_its_remedy(database: Database, client: &Client) {
    let lost = client.insert(job("a")).await.unwrap().id();
    database.set_state(lost, "running").await;
    database.execute("UPDATE {schema}.job SET attempted_at = now() - interval '1 hour'").await;
    let late = client.insert(job("b").queue("unworked")).await.unwrap().id();
    let late_since = "scheduled_at = now() - interval '9 min', created_at = now() - interval '9 min'";
    database.execute(&format!("UPDATE {{schema}}.job SET {late_since} WHERE id = '{late}'")).await;
    let stuck = Admin::new(client).stuck_jobs().await.unwrap();
    let reasons: Vec<_> = stuck.iter().map(|job| (job.id, job.state, job.code)).collect();
    let unworked = ObstacleCode::QueueUnworked;
    assert_eq!(reasons, [(lost, JobState::Running, ObstacleCode::RunnerDied), (late, JobState::Available, unworked)]);
    assert_eq!(stuck[1].reason, Admin::new(client).why(late).await.unwrap()[0].reason);
    assert!(stuck.iter().all(|job| !job.remedy.is_empty() && job.stuck_for > Some(Duration::from_secs(60))));
    assert_eq!(Admin::new(client).stuck_jobs().limit(1).await.unwrap().len(), 1);
    let hour = Duration::from_secs(3_600);
    assert_eq!(Admin::new(client).stuck_jobs().waiting_for(hour).await.unwrap().len(), 1);
}

#[support::test]
async fn a_retention_is_listed_with_the_jobs_that_it_should_have_deleted(database: Database, client: &Client) {
    let kept = Keep::For(Duration::from_secs(60));
    let kept = QueueChanges::new().keep_completed(kept).keep_cancelled(Keep::Forever).keep_discarded(Keep::Forever);
    client.queue("default").set(kept).await.unwrap();
    let insert = "INSERT INTO {schema}.job (id, kind, state, created_at, finalized_at)
             SELECT {schema}.id_at(now() - interval '1 hour'), 'a', 'completed', now() - interval '1 hour',
                 now() - interval '1 hour'";
    database.execute(insert).await;
    let all = Admin::new(client).retentions().await.unwrap();
    let of = |state| all.iter().find(|retention| retention.state == state).unwrap();
    let completed = of(JobState::Completed);
    assert_eq!((completed.keep, completed.overdue), (Keep::For(Duration::from_secs(60)), 1));
    assert!(!completed.is_default && !completed.has_pruner && completed.overdue_by.is_some());
    assert_eq!(of(JobState::Discarded).keep, Keep::Forever);
}

#[support::test]
async fn a_change_is_logged_once_with_what_it_changed(database: Database, client: &Client) {
    let jobs = client.insert_many((0..1_500).map(|_| job("a"))).await.unwrap();
    let keyed = client.insert(job("b").unique_key(UniqueKey::raw("k"))).await.unwrap().id();
    client.cancel(jobs[0].id()).actor("anna").await.unwrap();
    // In two batches.
    client.cancel(JobFilter::new().kind("a")).actor("anna").await.unwrap();
    client.set_priority(keyed, 7).await.unwrap();
    client.cancel(JobFilter::new().kind("none")).actor("anna").await.unwrap();
    client.queue("mail").pause().actor("ben").await.unwrap();
    client.queue("mail").limit(Some(2)).actor("ben").await.unwrap();
    Admin::new(client).audit_duplicates("a", None).actor("ben").await.unwrap();
    client.release_claim("k").actor("ben").await.unwrap();
    client.define_periodic(PeriodicJob::every("sweep", Duration::from_secs(900), job("c"))).await.unwrap();
    Admin::new(client).periodic().pause("sweep").actor("cleo").await.unwrap();
    let log = Admin::new(client).change_log().await.unwrap();
    let seen: Vec<_> = log.iter().map(|one| (one.actor.as_str(), one.verb.as_str(), one.jobs)).collect();
    assert_eq!(
        seen,
        [
            ("cleo", "pause_periodic", None),
            ("ben", "release_claim", None),
            ("ben", "audit_duplicates", None),
            ("ben", "set_queue", None),
            ("ben", "pause_queue", None),
            ("anonymous", "set_priority", Some(1)),
            ("anna", "cancel", Some(1_499)),
            ("anna", "cancel", Some(1)),
        ]
    );
    assert_eq!(log[6].subject, json!({"filter": {"kinds": ["a"]}}));
    assert_eq!(log[7].subject, json!({"ids": [jobs[0].id()], "count": 1}));
    assert_eq!(log[3].subject, json!({"queue": "mail", "limit": 2}));
    assert_eq!(log[1].subject, json!({"unique_key": "k"}));
    assert!(log[6].at < log[6].last_at);
    let page = Admin::new(client).change_log().by("ben").limit(1).after(log[1].id).await.unwrap();
    assert_eq!(page, log[2..3]);
    for name in ["", "a\0", &"a".repeat(201)] {
        assert!(client.cancel(keyed).actor(name).await.is_err(), "{name:?}");
        assert!(client.insert(job("a")).actor(name).await.is_err(), "{name:?}");
    }
    assert_eq!(client.job(keyed).await.unwrap().unwrap().state, JobState::Available);
}

#[support::test]
async fn an_insert_with_an_actor_is_logged_with_the_jobs_that_it_made(database: Database, client: &Client) {
    let keyed = || job("a").unique_key(UniqueKey::raw("k"));
    let first = client.insert(keyed()).actor("anna").await.unwrap().id();
    // A duplicate changes nothing.
    assert!(client.insert(keyed()).actor("anna").await.unwrap().duplicate);
    let many = client.insert_many([keyed(), job("a"), job("b")]).actor("ben").await.unwrap();
    let log = Admin::new(client).change_log().await.unwrap();
    let seen: Vec<_> = log.iter().map(|one| (one.actor.as_str(), one.verb.as_str(), one.jobs)).collect();
    assert_eq!(seen, [("ben", "insert", Some(2)), ("anna", "insert", Some(1))]);
    assert_eq!(log[0].subject, json!({"ids": [many[1].id(), many[2].id()], "count": 2}));
    assert_eq!(log[1].subject, json!({"ids": [first], "count": 1}));

    let mut tx = database.pool().begin().await.unwrap();
    client.insert(job("c")).actor("anna").tx(&mut tx).await.unwrap();
    assert_eq!(Admin::new(client).change_log().tx(&mut tx).await.unwrap().len(), 3);
    tx.rollback().await.unwrap();
    assert_eq!(Admin::new(client).change_log().await.unwrap().len(), 2);
    // Where the log cannot be written, nothing is inserted.
    database.execute("ALTER TABLE {schema}.change_log ADD CHECK (verb <> 'insert') NOT VALID").await;
    client.insert(job("c")).actor("anna").await.unwrap_err();
    client.insert_many([job("c"), job("c")]).actor("anna").await.unwrap_err();
    assert!(client.jobs(JobFilter::new().kind("c")).await.unwrap().is_empty());
}

#[support::test]
async fn the_log_has_a_change_if_and_only_if_it_was_committed(database: Database, client: &Client) {
    let id = client.insert(job("a")).await.unwrap().id();
    let mut tx = database.pool().begin().await.unwrap();
    client.cancel(id).actor("anna").tx(&mut tx).await.unwrap();
    client.queue("mail").pause().actor("anna").tx(&mut tx).await.unwrap();
    assert_eq!(Admin::new(client).change_log().tx(&mut tx).await.unwrap().len(), 2);
    tx.rollback().await.unwrap();
    assert_eq!(Admin::new(client).change_log().await.unwrap(), []);
    assert_eq!(client.job(id).await.unwrap().unwrap().state, JobState::Available);
    // Where the log cannot be written, nothing is changed.
    database.execute("ALTER TABLE {schema}.change_log ADD CHECK (false)").await;
    client.cancel(id).actor("anna").await.unwrap_err();
    client.cancel(JobFilter::all()).actor("anna").await.unwrap_err();
    client.queue("mail").pause().actor("anna").await.unwrap_err();
    assert_eq!(client.job(id).await.unwrap().unwrap().state, JobState::Available);
    assert_eq!(client.queue("mail").settings().await.unwrap().paused_at, None);
}

#[support::test]
async fn logged_changes_are_deleted_after_ninety_days(database: Database, client: &Client) {
    for _ in 0..2 {
        client.queue("mail").pause().actor("anna").await.unwrap();
    }
    let update = "UPDATE {schema}.change_log SET at = now() - interval '91 days'
             WHERE id = (SELECT min(id::text)::uuid FROM {schema}.change_log)";
    database.execute(update).await;
    let runner = database.runner().queue("default", 1).prune_interval(Duration::from_millis(10));
    database.start(runner.worker(|_: RunningJob<Task>| async {})).await;
    database.until("SELECT count(*) FROM {schema}.change_log", 1).await;
}
