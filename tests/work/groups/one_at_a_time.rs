//! One at a time: at most one runs, at most one waits, and no change is lost.

use super::{HISTORY, assert_limits_were_kept};
use support::prelude::*;

fn one(n: u32) -> NewJob {
    NewJob::from(Task { n }).one_at_a_time(UniquePolicy::new())
}

#[support::test(with(HISTORY))]
async fn an_insert_while_one_runs_waits_and_covers_the_later_ones(database: Database, client: &Client) {
    static GATE: Gate = Gate::closed();
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let work = async |_: RunningJob<Task>| {
        RUNS.fetch_add(1, Ordering::Relaxed);
        GATE.pass().await;
    };
    client.insert(one(1)).await.unwrap();
    database.start(database.runner().queue("default", 10).worker(work)).await;
    GATE.begun(1).await;
    let second = client.insert(one(2)).await.unwrap();
    assert!(!second.duplicate);
    for n in 3..6 {
        let covered = client.insert(one(n)).await.unwrap();
        assert!(covered.covered);
        assert_eq!(covered.id(), second.id());
    }
    // The second may not start while the first runs.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(RUNS.load(Ordering::Relaxed), 1);
    GATE.open(1);
    GATE.begun(1).await;
    GATE.open(1);
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 2).await;
    assert_limits_were_kept(&database).await;
}

#[support::test(with(HISTORY))]
async fn a_job_that_fails_while_another_waits_is_superseded_by_it(database: Database, client: &Client) {
    let first = client.insert(one(1)).await.unwrap().id();
    let work = async |job: RunningJob<Task>| {
        if job.args.n == 1 {
            job.client().insert(one(2)).await?;
            return Err(BoxError::from("no luck"));
        }
        Ok(Outcome::complete())
    };
    database.start(quick(client).worker(work)).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 1).await;
    database.end().await;
    let job = client.job(first).await.unwrap().unwrap();
    assert_eq!(job.state.as_str(), "discarded");
    assert!(job.errors.iter().any(|error| error.error == "superseded: another job holds the unique key"));
}

#[support::test]
async fn one_at_a_time_takes_no_window_and_no_raw_key(database: Database) {
    for policy in [UniquePolicy::new().window(MINUTE), UniquePolicy::from(UniqueKey::raw("a"))] {
        let refused = database.client.insert(NewJob::from(Task { n: 1 }).one_at_a_time(policy)).await.unwrap_err();
        assert!(refused.to_string().starts_with("invalid unique policy"), "{refused}");
    }
}

#[support::test]
async fn sql_runs_one_at_a_time_with_one_text_behind_the_keys_of_the_claim_and_the_group(database: Database) {
    let insert = r#"SELECT outcome FROM {schema}.insert_job(
        'task', '{"n": 1}',
        unique_policy => '{"keys": ["queue"], "scope": "queued", "on_conflict": "run_again", "on_reentry": "discard"}',
        group_policy => '{"keys": ["queue"]}', group_limit => 1)"#;
    assert_eq!(database.text(insert).await, "inserted");
    let row = "SELECT count(*)
        FROM {schema}.job
        WHERE encode(sha256(convert_to(group_key, 'UTF8')), 'hex') = unique_key AND group_limit = 1 AND discard_on_reentry";
    assert_eq!(database.number(row).await, 1);
    assert!(database.client.insert(one(2)).await.unwrap().covered);
    assert_eq!(database.text(insert).await, "covered");
    database.execute("DELETE FROM {schema}.job").await;
    database.client.insert(one(3)).await.unwrap();
    assert_eq!((database.number(row).await, database.text(insert).await.as_str()), (1, "covered"));
}
