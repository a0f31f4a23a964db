//! Jobs that the database rejects to change or to delete: they delay no other job, and are retried only after a pause.

use super::caretaker;
use super::pruning::final_jobs;
use super::rescuing::die;
use support::prelude::*;

const JOBS: &str = "SELECT count(*) FROM {schema}.job";
const QUICK: Duration = Duration::from_millis(10);

/// A trigger of the application, which also counts its calls.
async fn refuse(database: &Database, event: &str, about: &str) {
    // A sequence counts what is rolled back as well.
    database.execute("CREATE SEQUENCE {schema}.tries").await;
    let refuse = "PERFORM nextval('{schema}.tries'); RAISE EXCEPTION 'not this one';";
    database.trigger(&format!("BEFORE {event}"), about, refuse).await;
}

const TRIES: &str = "SELECT last_value FROM {schema}.tries";

/// Waits until the rule is asked no more. Answers how often it was.
async fn tries(database: &Database) -> i64 {
    eventually!(
        {
            let before = database.number(TRIES).await;
            // Longer than the rest after refusals.
            tokio::time::sleep(Duration::from_millis(1500)).await;
            database.number(TRIES).await == before
        },
        "it is tried again and again"
    );
    database.number(TRIES).await
}

async fn prune(database: &Database) {
    let retention = Retention::forever().completed(HOUR);
    database.start(caretaker(database).retention(retention).prune_interval(QUICK)).await;
}

#[tokio::test]
async fn a_job_that_somebody_refers_to_keeps_no_other_from_being_pruned() {
    for check in ["", "DEFERRABLE INITIALLY DEFERRED"] {
        let database = Database::new().await;
        final_jobs(&database, "a", "completed", 8 * 3600, 3000).await;
        let table = format!("CREATE TABLE {{schema}}.report (job uuid REFERENCES {{schema}}.job (id) {check})");
        database.execute(&table).await;
        let insert = "INSERT INTO {schema}.report SELECT id FROM {schema}.job ORDER BY id OFFSET 700 LIMIT 1";
        database.execute(insert).await;
        prune(&database).await;
        eventually!(database.number(JOBS).await == 1, "the others stay");
        // Nor those that are past their retention later.
        final_jobs(&database, "a", "completed", 2 * 3600, 3000).await;
        eventually!(database.number(JOBS).await == 1, "later ones stay");
        assert_eq!(database.number("SELECT count(*) FROM {schema}.report JOIN {schema}.job ON id = job").await, 1);
        database.end().await;
    }
}

#[support::test]
async fn jobs_that_may_not_be_deleted_are_tried_once_and_not_every_round(database: Database) {
    final_jobs(&database, "a", "completed", 8 * 3600, 5000).await;
    refuse(&database, "DELETE", "OLD.queue = 'a'").await;
    prune(&database).await;
    eventually!(database.number(TRIES).await > 1, "none is tried");
    let first = tries(&database).await;
    assert!(first < 1000, "{first} tries");
    // They are not in the way of those behind.
    final_jobs(&database, "b", "completed", 2 * 3600, 5000).await;
    eventually!(database.number(JOBS).await == 5000, "the others stay");
    assert_eq!(tries(&database).await, first);
}

#[support::test]
async fn many_jobs_that_may_not_be_deleted_keep_few_others_from_it(database: Database) {
    final_jobs(&database, "a", "completed", 8 * 3600, 6000).await;
    // A hundred in a row, and ten here and there.
    let some = "UPDATE {schema}.job SET priority = 1 WHERE id IN (
        SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM {schema}.job) AS j
        WHERE n BETWEEN 700 AND 799 OR n % 500 = 0 AND n > 1000)";
    assert_eq!(database.execute(some).await, 110);
    refuse(&database, "DELETE", "OLD.priority = 1").await;
    prune(&database).await;
    eventually!(database.number(JOBS).await <= 130, "the others stay");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE priority = 1").await, 110);
    let tries = tries(&database).await;
    assert!(tries < 2000, "{tries} tries");
}

#[support::test]
async fn a_job_that_may_not_be_discarded_keeps_no_other_from_being_rescued(database: Database) {
    for n in 0..50 {
        let tries = if n % 2 == 1 { 1 } else { 5 };
        database.client.insert(Task { n }).queue("unworked").max_attempts(tries).await.unwrap();
    }
    refuse(&database, "UPDATE", "NEW.state = 'discarded' AND NEW.args->>'n' = '13'").await;
    die(&database, Duration::ZERO).await;
    database.start(caretaker(&database).lease(SECOND)).await;
    let states = "SELECT string_agg(state || ' ' || count, ', ' ORDER BY state)
        FROM (SELECT state::text, count(*) FROM {schema}.job GROUP BY state) AS s";
    eventually!(database.text(states).await == "available 25, discarded 24, running 1", "the others are lost");
    let tries = tries(&database).await;
    assert!(tries < 50, "{tries} tries");
    database.end().await;
    // The next runner of the service does not know of that.
    database.drop_trigger().await;
    database.start(caretaker(&database)).await;
    eventually!(database.text(states).await == "available 25, discarded 25", "it is lost");
}

#[support::test]
async fn jobs_that_may_not_be_promoted_keep_no_other_from_it(database: Database) {
    // More in a row than are tried one by one.
    for n in 0..60 {
        let due = Duration::from_millis(if n < 40 { 1 } else { 50 });
        database.client.insert(Task { n }).scheduled_in(due).await.unwrap();
    }
    refuse(&database, "UPDATE", "NEW.state = 'available' AND (NEW.args->>'n')::int < 40").await;
    database.start(caretaker(&database).promote_interval(QUICK)).await;
    let waiting = "SELECT count(*) FROM {schema}.job WHERE state IN ('scheduled', 'retryable')";
    eventually!(database.number(waiting).await == 40, "the others wait");
    let later = database.client.insert(Task { n: 60 }).scheduled_in(Duration::from_millis(100)).await.unwrap();
    database.until_state(later.id(), JobState::Available).await;
    let tries = tries(&database).await;
    assert!(tries < 500, "{tries} tries");
}
