//! Queues at their limit of waiting jobs.

use uniqueue::{Client, Error, Severity, Thresholds};

use super::{find, gone, paste, seek};
use support::{Database, job};

const TRIGGERS: &str = "SELECT count(*) FROM pg_trigger
    WHERE tgrelid = '{schema}.job'::regclass AND tgname = 'job_max_waiting' AND tgenabled = 'O'";

#[support::test]
async fn a_full_queue_is_told_with_its_limit_and_the_remedy_doubles_it(database: Database, client: &Client) {
    client.queue("it's").max_waiting(Some(2)).await.unwrap();
    client.queue("roomy").max_waiting(Some(2)).await.unwrap();
    client
        .insert_many([job("a").queue("it's"), job("a").queue("it's").group("g"), job("a").queue("roomy")])
        .await
        .unwrap();
    let any = Thresholds::new();
    let full = find(&database, any, "queue_full", Severity::Warning, "queue it's").await;
    assert!(full.seen.starts_with("2 of its jobs wait, which is its limit"), "{full:?}");
    assert!(full.remedy.command.as_deref().unwrap().contains("queue max-waiting 'it'"), "{full:?}");
    assert!(seek(&database, any, "queue_full", "roomy").await.is_none());
    paste(&database, full.remedy.sql.as_deref().unwrap()).await;
    gone(&database, any, "queue_full", "").await;
    assert_eq!(client.queue("it's").settings().await.unwrap().max_waiting, Some(4));
}

#[support::test]
async fn a_limit_that_no_trigger_enforces_is_told_and_the_remedy_enforces_it(database: Database, client: &Client) {
    let any = Thresholds::new();
    for undone in ["DROP TRIGGER job_max_waiting ON {schema}.job", "ALTER TABLE {schema}.job DISABLE TRIGGER ALL"] {
        client.queue("a").max_waiting(Some(1)).await.unwrap();
        assert!(seek(&database, any, "queue_full", "").await.is_none());
        database.execute(undone).await;
        let lost = find(&database, any, "queue_full", Severity::Warning, "queue a").await;
        assert!(
            lost.seen.contains("the trigger job_max_waiting, which refuses more, is missing or disabled"),
            "{lost:?}"
        );
        paste(&database, lost.remedy.sql.as_deref().unwrap()).await;
        gone(&database, any, "queue_full", "").await;
        assert_eq!(database.number(TRIGGERS).await, 1);
        let jobs = [job("a").queue("a"), job("b").queue("a")];
        assert!(matches!(client.insert_many(jobs).await, Err(Error::QueueFull { room: 1, .. })));
    }
}
