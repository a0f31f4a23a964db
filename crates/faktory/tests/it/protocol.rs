//! Commands and their replies.

use test_support::prelude::*;

use crate::support::{Raw, Server, job, with};

#[test_support::test]
async fn a_pushed_job_is_fetched_as_it_was_sent_and_completed(server: Server) {
    let mut producer = server.client().await;
    let sent = json!({
        "jid": "0123456789abcdef", "jobtype": "Mailer::Send", "queue": "mail", "args": [1, "two", {"three": [4.50]}, null],
        "created_at": "2026-02-12T15:15:00.123456789Z", "retry": 3, "reserve_for": 600, "backtrace": 2, "priority": 7,
        "custom": {"locale": "fr", "nested": {"a": 1}},
    });
    assert_eq!(producer.push(sent.clone()).await, "OK");
    let row = server.job("Mailer::Send").await;
    assert_eq!((row.max_attempts, row.priority, row.queue.as_str()), (4, 2, "mail"));
    assert_eq!(row.meta["locale"], "fr");
    let mut worker = server.worker("w1").await;
    let fetched = worker.fetch("mail").await;
    for member in ["jid", "jobtype", "queue", "args", "created_at", "retry", "reserve_for", "backtrace", "custom"] {
        assert_eq!(fetched[member], sent[member], "{member}");
    }
    assert!(fetched.get("failure").is_none());
    assert_eq!(worker.ack("0123456789abcdef").await, "OK");
    assert_eq!(server.job("Mailer::Send").await.state, JobState::Completed);
    assert_eq!(worker.ack("0123456789abcdef").await, "OK", "as in Faktory");
}

#[test_support::test]
async fn a_job_of_another_door_is_worked_here_and_the_other_way_round(server: Server) {
    let inserted = uniqueue::NewJob::new("native", &json!({"user": 7})).meta("trace", "x");
    let id = server.database.client.insert(inserted).await.unwrap().id();
    let mut worker = server.worker("w").await;
    let fetched = worker.fetch("default").await;
    assert_eq!((&fetched["jid"], &fetched["args"]), (&json!(id.to_string()), &json!([{"user": 7}])));
    assert_eq!((&fetched["custom"], &fetched["retry"]), (&json!({"trace": "x"}), &json!(24)));
    assert_eq!(worker.ack(&id.to_string()).await, "OK");
    assert_eq!(server.job("native").await.state, JobState::Completed);
    assert_eq!(worker.push(with(job("12345678", "pushed"), "args", json!([{"user": 8}]))).await, "OK");
    #[derive(serde::Deserialize)]
    struct Args {
        user: i64,
    }
    assert_eq!(server.job("pushed").await.args_as::<Args>().unwrap().user, 8);
}

#[test_support::test]
async fn a_fetch_without_jobs_answers_nil_and_a_push_wakes_one_that_waits(server: Server) {
    let mut worker = server.worker("w").await;
    assert_eq!(worker.send("FETCH nothing").await, "nil");
    let (mut waiting, mut producer) = (server.worker("w").await, server.client().await);
    waiting.write("FETCH a b").await;
    let idle = "SELECT count(*) FROM {schema}.runner WHERE idle AND 'b' = ANY (queues)";
    server.database.until(idle, 1).await;
    assert_eq!(producer.push(with(job("12345678", "t"), "queue", "b")).await, "OK");
    let fetched: Value = serde_json::from_str(&waiting.read().await).unwrap();
    assert_eq!(fetched["jid"], "12345678");
}

#[test_support::test]
async fn the_queues_of_a_fetch_are_in_strict_order(server: Server) {
    let mut client = server.worker("w").await;
    for (jid, queue) in [("job-low-1", "low"), ("job-high-1", "high"), ("job-low-2", "low")] {
        client.push(with(job(jid, "t"), "queue", queue)).await;
    }
    assert_eq!(client.fetch("high low").await["jid"], "job-high-1");
    assert_eq!(client.fetch("low high").await["jid"], "job-low-1");
}

#[test_support::test]
async fn commands_are_answered_in_their_order_also_when_sent_at_once(server: Server) {
    let mut client = server.worker("w").await;
    let push = format!("PUSH {}", job("12345678", "t"));
    client.write(&format!("{push}\r\n\r\nFETCH default\r\nACK {{\"jid\":\"12345678\"}}\r\nNOPE\r\nINFO")).await;
    assert_eq!(client.read().await, "OK");
    assert!(client.read().await.contains("\"jid\":\"12345678\""));
    assert_eq!(client.read().await, "OK");
    assert_eq!(client.read().await, "-ERR Unknown command NOPE");
    let info: Value = serde_json::from_str(&client.read().await).unwrap();
    assert_eq!((&info["faktory"]["total_processed"], &info["faktory"]["total_failures"]), (&json!(1), &json!(0)));
    assert_eq!((&info["server"]["connections"], &info["server"]["command_count"]), (&json!(1), &json!(5)));
}

#[test_support::test]
async fn many_jobs_are_pushed_at_once_and_the_refused_ones_are_named(server: Server) {
    let mut client = server.client().await;
    let unique = |jid: &str| with(job(jid, "u"), "custom", json!({"unique_for": 60}));
    let jobs =
        json!([job("job-0001", "a"), job("short", "a"), unique("job-0002"), unique("job-0003"), job("job-0004", "a")]);
    let refused: Value = serde_json::from_str(&client.send(&format!("PUSHB {jobs}")).await).unwrap();
    let problem = "jobs must have a reasonable jid parameter";
    assert_eq!(refused, json!({"job-0003": "NOTUNIQUE Job not unique", "short": problem}));
    assert_eq!(server.database.number("SELECT count(*) FROM {schema}.job").await, 3);
    assert_eq!(client.send("PUSHB []").await, "{}");
}

#[test_support::test]
async fn queues_are_paused_resumed_emptied_and_measured(server: Server) {
    let mut client = server.worker("w").await;
    for (jid, queue) in [("job-0001", "a"), ("job-0002", "b"), ("job-0003", "b")] {
        client.push(with(job(jid, "t"), "queue", queue)).await;
    }
    assert_eq!(client.send("QUEUE PAUSE a").await, "OK");
    assert_eq!(client.send("FETCH a").await, "nil");
    assert_eq!(client.send("QUEUE RESUME *").await, "OK");
    assert_eq!(client.fetch("a").await["jid"], "job-0001");
    let latency: Value = serde_json::from_str(&client.send("QUEUE LATENCY b none").await).unwrap();
    assert!(latency["b"].as_f64().unwrap() > 0.0 && latency["none"] == json!(0.0));
    let info: Value = serde_json::from_str(&client.send("INFO").await).unwrap();
    assert_eq!((&info["faktory"]["queues"]["b"], &info["faktory"]["total_enqueued"]), (&json!(2), &json!(2)));
    assert_eq!(client.send("QUEUE REMOVE b").await, "OK");
    assert_eq!(client.send("FETCH b").await, "nil");
    let queues = async |client: &mut Raw| {
        let info: Value = serde_json::from_str(&client.send("INFO").await).unwrap();
        info["faktory"]["queues"].clone()
    };
    assert_eq!(queues(&mut client).await, json!({"a": 0}), "a removed queue is not listed");
    client.push(with(job("job-0004", "t"), "queue", "b")).await;
    assert_eq!(queues(&mut client).await, json!({"a": 0, "b": 1}), "until it has waiting jobs again");
    client.push(with(with(job("job-0005", "t"), "queue", "b"), "at", "2100-01-01T00:00:00Z")).await;
    assert_eq!(client.send("QUEUE REMOVE a b").await, "OK");
    let left = "one has a running job, the other a scheduled one";
    assert_eq!(queues(&mut client).await, json!({}), "{left}");
    let cancelled = "SELECT count(*) FROM {schema}.job WHERE state = 'cancelled'";
    assert_eq!(server.database.number(cancelled).await, 3);
}

#[test_support::test]
async fn a_worker_that_is_quiet_gets_no_job(server: Server) {
    let mut worker = server.worker("w").await;
    assert_eq!(worker.send(r#"BEAT {"wid":"w","rss_kb":5}"#).await, "OK");
    assert_eq!(worker.send(r#"BEAT {"wid":"w","current_state":"quiet"}"#).await, r#"{"state":"quiet"}"#);
    worker.push(job("12345678", "t")).await;
    assert_eq!(worker.send("FETCH default").await, "nil");
    assert_eq!(worker.send(r#"BEAT {"wid":"w","current_state":"terminate"}"#).await, r#"{"state":"terminate"}"#);
    assert_eq!(worker.send(r#"BEAT {"wid":"other"}"#).await, "-ERR Unknown worker other");
    assert_eq!(server.worker("v").await.fetch("default").await["jid"], "12345678");
}

#[test_support::test]
async fn flush_deletes_what_came_through_the_door_and_nothing_else(server: Server) {
    let mut worker = server.worker("w").await;
    worker.push(job("running-1", "t")).await;
    worker.fetch("default").await;
    worker.push(with(job("later-001", "t"), "at", "2100-01-01T00:00:00Z")).await;
    server.database.client.insert(test_support::job("native")).await.unwrap();
    assert_eq!(worker.send("FLUSH").await, "OK");
    assert_eq!(server.database.text("SELECT string_agg(kind, ' ') FROM {schema}.job").await, "native");
}

#[test_support::test]
async fn a_stop_answers_what_waits_and_closes_connections(server: Server) {
    let (mut waiting, mut idle) = (server.worker("w").await, server.client().await);
    waiting.write("FETCH default").await;
    server.database.until("SELECT count(*) FROM {schema}.runner WHERE idle", 1).await;
    let stopping = server.stop();
    let database = timeout(WAIT, stopping).await.unwrap();
    assert_eq!((waiting.read().await.as_str(), idle.read().await.as_str()), ("nil", ""));
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner WHERE name = 'w'").await, 0);
}

#[test_support::test]
async fn the_end_of_a_client_is_no_error_and_has_no_reply(server: Server) {
    let mut client = server.client().await;
    assert_eq!(client.send("END").await, "");
    let mut before = Raw::connect(server.address).await;
    assert_eq!(before.read().await, "HI {\"v\":2}");
    assert_eq!(before.send("PUSH {}").await, "-ERR Invalid greeting: send HELLO first");
}

#[test_support::test]
async fn info_counts_the_sets_that_clients_read_and_contains_what_its_client_changed(server: Server) {
    let mut client = server.worker("w").await;
    let sizes = async |client: &mut Raw| {
        let info: Value = serde_json::from_str(&client.send("INFO").await).unwrap();
        let tasks = &info["faktory"]["tasks"];
        ["Scheduled", "Retries", "Dead", "Busy", "Workers"].map(|set| tasks[set]["size"].as_u64().unwrap())
    };
    assert_eq!(sizes(&mut client).await, [0, 0, 0, 0, 1]);
    client.push(with(job("later-001", "t"), "at", "2100-01-01T00:00:00Z")).await;
    for (jid, retry) in [("retry-001", 3), ("dead-0001", -1), ("busy-0001", 1)] {
        client.push(with(job(jid, "t"), "retry", retry)).await;
        client.fetch("default").await;
        if jid != "busy-0001" {
            client.fail(jid).await;
        }
    }
    assert_eq!(sizes(&mut client).await, [1, 1, 1, 1, 1]);
    assert_eq!(client.send(r#"MUTATE {"cmd":"clear","target":"scheduled"}"#).await, "OK");
    assert_eq!(sizes(&mut client).await, [0, 1, 1, 1, 1]);
}

#[tokio::test]
async fn info_takes_no_connection_of_pushes_and_many_at_once_count_once() {
    let server = Server::on(test_support::Database::with_connections(3).await, |faktory| faktory).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(server.client().await);
    }
    // All connections of work are taken, so no push could be made.
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(server.database.pool().acquire().await.unwrap());
    }
    let mut asked = tokio::task::JoinSet::new();
    for mut client in clients {
        asked.spawn(async move { client.send("INFO").await });
    }
    for info in asked.join_all().await {
        assert!(info.contains("\"total_enqueued\":0"), "{info}");
    }
    let own = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> ALL ($1)";
    let mut pids: Vec<i32> = Vec::new();
    for connection in &mut held {
        pids.push(sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut **connection).await.unwrap());
    }
    let others: i64 = sqlx::query_scalar(own).bind(pids).fetch_one(&mut *held[0]).await.unwrap();
    // One reads for INFO, one listens for wake-ups, and one does the maintenance.
    assert!(others <= 3, "{others} other connections");
}

#[test_support::test]
async fn a_job_that_has_expired_is_not_fetched_and_a_short_reservation_is_a_minute(server: Server) {
    let mut worker = server.worker("w").await;
    let at = time::OffsetDateTime::now_utc() + std::time::Duration::from_secs(3_600);
    let at = at.format(&time::format_description::well_known::Rfc3339).unwrap();
    let expires = with(job("job-0001", "expires"), "custom", json!({"expires_at": at}));
    assert_eq!(worker.push(expires).await, "OK");
    assert_eq!(worker.push(with(job("job-0002", "short"), "reserve_for", 5)).await, "OK");
    let expire =
        "UPDATE {schema}.job SET expires_at = now() - interval '1 s' WHERE expires_at > now() + interval '59 min'";
    assert_eq!(server.database.execute(expire).await, 1);
    let fetched = worker.fetch("default").await;
    assert_eq!((&fetched["jid"], &fetched["reserve_for"]), (&json!("job-0002"), &json!(60)));
    assert_eq!(worker.send("FETCH default").await, "nil");
    let errors = "SELECT count(*) FROM {schema}.job WHERE kind = 'expires' AND state = 'discarded' AND errors #>> '{0,code}' = 'expired'";
    server.database.until(errors, 1).await;
}

#[test_support::test]
async fn a_queue_that_no_fetch_can_name_is_refused(server: Server) {
    server.database.execute("SELECT {schema}.register_kind('spaced', queue => 'a b')").await;
    let mut client = server.client().await;
    let refused = client.push(with(job("job-0001", "t"), "queue", "a b")).await;
    assert_eq!(refused, "-ERR invalid queue: must have no white space: \"a b\"");
    assert!(client.push(job("job-0002", "spaced")).await.starts_with("-ERR invalid queue"));
}
