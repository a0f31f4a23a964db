//! What a remote worker fetches.

use super::{Remote, Task};
use support::prelude::*;

#[support::test]
async fn jobs_come_in_the_order_of_work_with_what_a_worker_reads(database: Database) {
    let jobs = [1, 3, 2].map(|priority| NewJob::new("mail", &json!({"to": priority})).priority(priority));
    database.client.insert_many(jobs).await.unwrap();
    let worker = Remote::new(&database, "w");
    let fetched = worker.fetch(10).await;
    let seen = fetched.iter().map(|job| (&*job.kind, &*job.queue, job.args["to"].clone(), job.attempt));
    assert_eq!(seen.collect::<Vec<_>>(), [3, 2, 1].map(|to| ("mail", "default", json!(to), 1)));
    assert_eq!((&fetched[0].meta, &fetched[0].errors, fetched[0].crashes), (&json!({}), &json!([]), 0));
    let row = database.row(fetched[0].id.into()).await;
    assert_eq!((row.state, row.worker), (JobState::Running, Some(fetched[0].worker_id)));
    assert!(worker.fetch(10).await.is_empty());
}

#[support::test]
async fn the_timeout_of_a_registered_kind_comes_with_its_jobs(database: Database) {
    database.client.insert_many([job("slow"), job("other")]).await.unwrap();
    database.execute("SELECT {schema}.register_kind('slow', timeout => '5 minutes')").await;
    let timeouts: Vec<_> = Remote::new(&database, "w").fetch(2).await.into_iter().map(|job| job.timeout).collect();
    assert_eq!(timeouts, [Some("00:05:00".to_owned()), None]);
}

#[support::test]
async fn a_fetch_takes_at_most_its_count_from_all_queues_the_first_ones_first(database: Database) {
    for queue in ["a", "b", "c"] {
        database.client.insert_many((0..3).map(|_| job("j").queue(queue))).await.unwrap();
    }
    let worker = Remote::new(&database, "w").of_queues(&["b", "a"]);
    let queues = async |count| worker.fetch(count).await.into_iter().map(|job| job.queue).collect::<Vec<_>>().concat();
    assert_eq!(queues(2).await, "bb");
    assert_eq!(queues(3).await, "baa");
    assert_eq!(queues(9).await, "a");
}

#[support::test]
async fn kinds_choose_and_without_them_every_kind_is_worked_also_in_groups(database: Database) {
    for kind in ["x", "y", "z"] {
        database.client.insert(job(kind)).await.unwrap();
        database.client.insert(job(kind).group(kind)).await.unwrap();
    }
    let kinds = |jobs: Vec<super::Fetched>| jobs.into_iter().map(|job| job.kind).collect::<Vec<_>>();
    let of_two = Remote::new(&database, "two").of_kinds(&["x", "y"]);
    let mut two = kinds(of_two.fetch(10).await);
    two.sort();
    assert_eq!(two, ["x", "x", "y", "y"]);
    assert_eq!(kinds(Remote::new(&database, "any").fetch(10).await), ["z", "z"]);
}

#[support::test]
async fn pause_limit_rate_and_hold_of_a_queue_hold_for_remote_workers(database: Database) {
    let worker = Remote::new(&database, "w");
    database.client.insert_many((0..20).map(|_| job("j"))).await.unwrap();
    let queue = || database.client.queue("default");
    queue().pause().await.unwrap();
    assert!(worker.fetch(5).await.is_empty());
    queue().resume().await.unwrap();
    queue().limit(Some(3)).await.unwrap();
    assert_eq!(worker.fetch(5).await.len(), 3);
    assert!(Remote::new(&database, "other").fetch(5).await.is_empty());
    queue().limit(None).await.unwrap();
    queue().set(QueueChanges::new().rate(Some(Rate::per(2, HOUR).burst(2)))).await.unwrap();
    assert_eq!(worker.fetch(5).await.len(), 2);
    assert!(worker.fetch(5).await.is_empty());
    queue().set(QueueChanges::new().rate(None)).await.unwrap();
    queue().hold(MINUTE).await.unwrap();
    assert!(worker.fetch(5).await.is_empty());
}

#[support::test]
async fn groups_take_turns_over_fetches_of_one_job(database: Database) {
    database.execute("INSERT INTO {schema}.queue (name, fair) VALUES ('default', true)").await;
    for group in ["a", "b", "c", "d"] {
        database.client.insert_many((0..10).map(|_| job("j").group(group))).await.unwrap();
    }
    let worker = Remote::new(&database, "w");
    let mut groups = Vec::new();
    for _ in 0..8 {
        let job = worker.fetch(1).await.remove(0);
        groups.push(database.text(&format!("SELECT group_key FROM {{schema}}.job WHERE id = '{}'", job.id)).await);
    }
    let first: HashSet<_> = groups[..4].iter().collect();
    assert_eq!(first.len(), 4, "{groups:?}");
    let second: HashSet<_> = groups[4..].iter().collect();
    assert_eq!(second.len(), 4, "{groups:?}");
}

#[support::test]
async fn jobs_that_the_database_refuses_to_start_are_left_alone_and_the_others_go_on(database: Database) {
    database.trigger("BEFORE UPDATE", "NEW.kind = 'bad'", "RAISE 'refused';").await;
    let jobs = ["bad", "good", "bad", "good"].map(job);
    database.client.insert_many(jobs.into_iter().chain([job("bad").group("g"), job("good").group("h")])).await.unwrap();
    let worker = Remote::new(&database, "w");
    let kinds = async || worker.fetch(9).await.into_iter().map(|job| job.kind).collect::<Vec<_>>();
    assert_eq!(kinds().await, ["good", "good", "good"]);
    assert!(kinds().await.is_empty());
    database.drop_trigger().await;
    assert!(kinds().await.is_empty(), "they are left alone for a minute");
    try_again(&database).await;
    assert_eq!(kinds().await, ["bad", "bad", "bad"]);
}

/// Ends the time for which remote workers leave jobs alone.
async fn try_again(database: &Database) {
    let pass = "UPDATE {schema}.runner SET memory = memory || jsonb_build_object('aside', (
        SELECT jsonb_object_agg(a.id, a.job || jsonb_build_object('until', clock_timestamp() - interval '1 ms'))
        FROM jsonb_each(memory -> 'aside') AS a (id, job)))";
    database.execute(pass).await;
}

/// As many as one fetch tries at least, and some behind them.
#[support::test]
async fn jobs_that_cannot_be_read_are_set_aside_then_discarded_and_hold_up_no_other(database: Database) {
    let inserted = database.client.insert_many((0..30).map(|_| job("j"))).await.unwrap();
    for (place, job) in inserted[..28].iter().enumerate() {
        database.damage(job.id(), if place % 5 == 0 { "errors" } else { "args" }).await;
    }
    let worker = Remote::new(&database, "w");
    let fetched = worker.fetch(1).await;
    assert_eq!(fetched[0].id, inserted[28].id().as_uuid());
    worker.complete(&fetched[0]).await;
    let set_aside = "SELECT count(*) FROM {schema}.runner AS r, jsonb_object_keys(r.memory -> 'aside')";
    assert_eq!(database.number(set_aside).await, 28);
    for _ in ["the second trial", "the third"] {
        assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE state = 'discarded'").await, 0);
        try_again(&database).await;
        let fetched = worker.fetch(1).await;
        assert_eq!(fetched[0].id, inserted[29].id().as_uuid());
        worker.end_one(&fetched[0], "give_back_jobs", "").await;
    }
    let said = "SELECT count(*) FROM {schema}.job WHERE state = 'discarded'
        AND errors #>> '{-1,error}' LIKE 'the job''s row cannot be read: %' AND jsonb_array_length(errors) = 1";
    assert_eq!(database.number(said).await, 28);
}

#[support::test]
async fn a_queue_of_which_no_job_can_be_started_holds_up_no_other_and_says_so(database: Database) {
    database.trigger("BEFORE UPDATE", "NEW.queue = 'bad'", "RAISE 'no';").await;
    database.client.insert_many((0..40).map(|_| job("j").queue("bad"))).await.unwrap();
    database.client.insert(job("j").queue("good")).await.unwrap();
    let worker = Remote::new(&database, "w").of_queues(&["bad", "good"]);
    assert_eq!(worker.fetch_one().await.queue, "good");
    assert_eq!(worker.fetch(1).await.len(), 0);
    let left = "SELECT count(*) FROM {schema}.job WHERE state = 'available' AND attempt = 0";
    assert_eq!(database.number(left).await, 40);
}

#[support::test]
async fn remote_workers_and_a_runner_share_a_queue_and_each_job_is_worked_once(database: Database) {
    database.client.insert_many((0..200).map(|_| job("task"))).await.unwrap();
    let worker = Remote::new(&database, "w");
    let of_remote = worker.fetch(50).await;
    database.start(database.runner().queue("default", 4).worker(|_: RunningJob<Task>| async {})).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 150).await;
    assert!(worker.end(&of_remote, "complete_jobs", "").await.iter().all(|ended| ended.counted));
    let once = "SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1 AND run = 1";
    database.until(once, 200).await;
}

#[support::test]
async fn a_worker_cannot_end_or_extend_the_jobs_of_a_runner(database: Database) {
    let worker = Remote::new(&database, "w");
    database.client.insert(job("j")).await.unwrap();
    // The job was a remote worker's before.
    let first = worker.fetch_one().await;
    worker.end_one(&first, "give_back_jobs", "").await;
    let runner = Uuid::from_u128(0x7000_8000_0000_0000_0001);
    database.enter_runner(runner, "r", "{default}").await;
    let queues = support::wanted(&[("default", 1)]);
    let fetch = format!(
        "SELECT FROM {{schema}}._fetch_jobs('{runner}', '{queues}', '{{j}}', '{{}}', 0, false, '{{}}', '{{}}', '{{}}', '{{}}', NULL, NULL)"
    );
    database.execute(&fetch).await;
    let second = super::Fetched { run: 2, ..first };
    assert_eq!(worker.complete(&second).await, (false, "running".to_owned()));
    assert!(!worker.extend(&[second]).await[0].held);
}

#[support::test]
async fn arguments_outside_their_limits_are_refused_by_name(database: Database) {
    for (call, problem) in [
        ("'{}', 'w'", "invalid queues: must be 1 to 100 names: 0"),
        ("NULL, 'w'", "invalid queues: must be 1 to 100 names: 0"),
        ("'{a,NULL}', 'w'", "invalid queue: must not be null"),
        ("'{a}', ''", "invalid worker: must be a name of 1 to 128 bytes: \"\""),
        ("'{a}', NULL", "invalid worker: must be a name of 1 to 128 bytes: null"),
        ("'{a}', 'w', 0", "invalid count: must be 1 to 1000: 0"),
        ("'{a}', 'w', 1001", "invalid count: must be 1 to 1000: 1001"),
        ("'{a}', 'w', NULL", "invalid count: must be 1 to 1000: null"),
        ("'{a}', 'w', 1, '{}'", "invalid kinds: must be null, for any kind, or an array of names"),
        ("'{a}', 'w', 1, '{a,NULL}'", "invalid kinds: must be null, for any kind, or an array of names"),
        ("'{a}', 'w', 1, NULL, '999 ms'", "invalid reserve: must be 1 second to 1 day: 00:00:00.999"),
        ("'{a}', 'w', 1, NULL, '2 days'", "invalid reserve: must be 1 second to 1 day: 2 days"),
        ("'{a}', 'w', 1, NULL, NULL", "invalid reserve: must be 1 second to 1 day: null"),
    ] {
        let refused = database.refused(&format!("SELECT FROM {{schema}}.fetch_jobs({call})")).await;
        assert_eq!(refused, ("22023".to_owned(), problem.to_owned()), "{call}");
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner").await, 0);
}

#[support::test]
async fn a_worker_is_seen_as_live_until_it_stops(database: Database) {
    let worker = Remote::new(&database, "host:1").of_queues(&["b", "a"]).of_kinds(&["j"]);
    worker.fetch(1).await;
    // In another order, it is the same worker.
    worker.clone().of_queues(&["a", "b"]).fetch(1).await;
    let seen = database.text("SELECT concat_ws(' ', name, queues, kinds) FROM {schema}.runner").await;
    assert_eq!(seen, "host:1 {a,b} {j}");
    assert_eq!(database.number("SELECT sum(runners)::bigint FROM {schema}.queues() WHERE name IN ('a', 'b')").await, 2);
    database.client.insert(job("j").queue("a")).await.unwrap();
    let fetched = worker.fetch_one().await;
    let view = "SELECT concat_ws(' ', runner_name, runner_is_alive, lease_left < interval '1 minute') FROM {schema}.running_job";
    assert_eq!(database.text(view).await, "host:1 t t");
    let stop = "SELECT {schema}.stop_worker('host:1')::bigint";
    assert_eq!(database.number(stop).await, 0, "it still has a job");
    worker.complete(&fetched).await;
    assert_eq!(database.number(stop).await, 1);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner").await, 0);
}
