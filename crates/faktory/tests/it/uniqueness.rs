//! Unique jobs, sentence by sentence of Faktory's page.

use test_support::prelude::*;

use crate::support::{Raw, Server, with};

const NOT_UNIQUE: &str = "-NOTUNIQUE Job not unique";

/// The page's job.
fn sometype(jid: &str) -> Value {
    json!({"jid": jid, "jobtype": "sometype", "args": [1, 2], "custom": {"unique_for": 600.0}})
}

async fn second(client: &mut Raw) -> String {
    client.push(sometype("job-second")).await
}

#[test_support::test]
async fn a_second_job_is_refused_while_the_first_is_pending_and_pushed_after_it_succeeded(server: Server) {
    let mut client = server.worker("w").await;
    assert_eq!(client.push(sometype("job-first")).await, "OK");
    assert_eq!(second(&mut client).await, NOT_UNIQUE);
    client.fetch("default").await;
    assert_eq!(second(&mut client).await, NOT_UNIQUE, "a running job holds the lock");
    client.ack("job-first").await;
    assert_eq!(second(&mut client).await, "OK");
}

#[test_support::test]
async fn the_lock_ends_with_its_time_and_a_late_ack_does_not_free_that_of_another(server: Server) {
    let (mut client, mut other) = (server.worker("w").await, server.worker("v").await);
    client.push(sometype("job-first")).await;
    client.fetch("default").await;
    server.database.pass(Duration::from_secs(599)).await;
    assert_eq!(second(&mut client).await, NOT_UNIQUE);
    server.database.pass(Duration::from_secs(1)).await;
    assert_eq!(second(&mut client).await, "OK");
    assert_eq!(client.ack("job-first").await, "OK");
    assert_eq!(client.push(sometype("job-third")).await, NOT_UNIQUE);
    assert_eq!(other.fetch("default").await["jid"], "job-second");
}

#[test_support::test]
async fn a_retry_holds_the_lock_and_removing_or_killing_it_does_not_free_it(server: Server) {
    let mut client = server.worker("w").await;
    for (number, mutation, state) in [(0, "discard", JobState::Cancelled), (1, "kill", JobState::Discarded)] {
        let jid = format!("job-{number:04}");
        let job = with(sometype(&jid), "jobtype", format!("type{number}"));
        assert_eq!(client.push(job.clone()).await, "OK");
        client.fetch("default").await;
        client.fail(&jid).await;
        let again = with(job, "jid", "job-again");
        assert_eq!(client.push(again.clone()).await, NOT_UNIQUE);
        let mutate = json!({"cmd": mutation, "target": "retries", "filter": {"jids": [jid]}});
        assert_eq!(client.send(&format!("MUTATE {mutate}")).await, "OK");
        assert_eq!(server.job(&format!("type{number}")).await.state, state);
        assert_eq!(client.push(again.clone()).await, NOT_UNIQUE, "{mutation}");
        let mutate = json!({"cmd": "clear", "target": "dead"});
        assert_eq!(client.send(&format!("MUTATE {mutate}")).await, "OK");
        assert_eq!(server.job(&format!("type{number}")).await.state, JobState::Cancelled);
        assert_eq!(client.push(again.clone()).await, NOT_UNIQUE, "the dead job was cleared");
        server.database.pass(Duration::from_secs(600)).await;
        assert_eq!(client.push(again).await, "OK");
        client.fetch("default").await;
        client.ack("job-again").await;
    }
}

#[test_support::test]
async fn until_start_frees_the_lock_at_the_fetch_for_good(server: Server) {
    let mut client = server.worker("w").await;
    let job = |jid: &str| with(sometype(jid), "custom", json!({"unique_for": 600, "unique_until": "start"}));
    assert_eq!(client.push(job("job-first")).await, "OK");
    assert_eq!(client.push(job("job-second")).await, NOT_UNIQUE);
    client.fetch("default").await;
    client.fail("job-first").await;
    assert_eq!(client.push(job("job-second")).await, "OK", "the failed job does not take the lock again");
}

#[test_support::test]
async fn without_a_time_or_with_null_a_job_bypasses_uniqueness_and_a_bad_time_is_an_error(server: Server) {
    let mut client = server.client().await;
    assert_eq!(client.push(sometype("job-first")).await, "OK");
    for custom in [json!({"unique_for": null}), json!({}), Value::Null] {
        assert_eq!(client.push(with(sometype("job-second"), "custom", custom)).await, "OK");
    }
    let push = client.push(with(sometype("job-second"), "custom", json!({"unique_for": -5}))).await;
    assert_eq!(push, "-ERR invalid unique_for: must be a number of seconds above 0: -5");
    let push =
        client.push(with(sometype("job-second"), "custom", json!({"unique_for": 5, "unique_until": "later"}))).await;
    assert_eq!(push, "-ERR invalid unique_until: must be \"success\" or \"start\": \"later\"");
}

#[test_support::test]
async fn type_args_and_queue_make_the_key(server: Server) {
    let mut client = server.client().await;
    assert_eq!(client.push(sometype("job-first")).await, "OK");
    for (name, value) in [("queue", json!("other")), ("args", json!([2, 1])), ("jobtype", json!("another"))] {
        assert_eq!(client.push(with(sometype("job-second"), name, value)).await, "OK", "{name}");
    }
    assert_eq!(client.push(with(sometype("job-second"), "args", json!([1.0, 2]))).await, NOT_UNIQUE);
}

#[test_support::test]
async fn the_time_of_a_scheduled_job_includes_its_delay(server: Server) {
    let mut client = server.client().await;
    let at = time::OffsetDateTime::now_utc() + Duration::from_secs(3_600);
    let at = at.format(&time::format_description::well_known::Rfc3339).unwrap();
    assert_eq!(client.push(with(sometype("job-first"), "at", at)).await, "OK");
    let lasts = "SELECT extract(epoch FROM unique_until - now())::bigint FROM {schema}.job";
    let lasts = server.database.number(lasts).await;
    assert!((4_190..=4_201).contains(&lasts), "70 minutes: {lasts}");
    assert_eq!(second(&mut client).await, NOT_UNIQUE);
}
