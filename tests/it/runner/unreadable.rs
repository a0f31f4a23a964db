//! Jobs that no fetch can return.

use std::time::Duration;

use uniqueue::{JobState, Runner, RunningJob};

use super::Task;
use crate::support::Database;

/// An object and an array, as `jsonb` stores them, each with a member that has no valid type: as after a disk error. To
/// read them is an error.
const DAMAGED_OBJECT: &str = "'\\x0100002001000080070000506100000000000000'";
const DAMAGED_ARRAY: &str = "'\\x01000040040000d000000000'";

#[tokio::test]
async fn jobs_that_cannot_be_read_are_discarded_and_hold_up_no_other() {
    let database = Database::new().await;
    let client = &database.client;
    let inserted = client.insert_many((0..40).map(|n| Task { n })).await.unwrap();
    // Lets the test write the bytes of a value.
    let cast = "DO $$ BEGIN
            CREATE CAST (bytea AS jsonb) WITHOUT FUNCTION;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END $$";
    database.execute(cast).await;
    let damage = async |place: usize, column: &str, value: &str| {
        let id = inserted[place].id();
        let update = format!("UPDATE {{schema}}.job SET {column} = {value}::bytea::jsonb WHERE id = '{id}'");
        assert_eq!(database.execute(&update).await, 1);
        id
    };
    let damaged_args = [damage(0, "args", DAMAGED_OBJECT).await, damage(20, "args", DAMAGED_OBJECT).await];
    let damaged_errors = damage(7, "errors", DAMAGED_ARRAY).await;
    // A row that the database does not even change.
    let stuck = damage(30, "args", DAMAGED_OBJECT).await;
    let refuse = "CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION USING ERRCODE = 'data_corrupted', MESSAGE = 'invalid page'; END $$";
    database.execute(refuse).await;
    let trigger = format!(
        "CREATE TRIGGER refuse BEFORE UPDATE ON {{schema}}.job FOR EACH ROW WHEN (NEW.id = '{stuck}')
        EXECUTE FUNCTION {{schema}}.refuse()"
    );
    database.execute(&trigger).await;

    let work = |_: RunningJob<Task>| async {};
    let runner =
        Runner::new(client.clone()).queue("default", 100).poll_interval(Duration::from_millis(20)).worker(work);
    let runner = runner.start().await.unwrap();
    let completed = "SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1";
    database.until(completed, 36).await;
    // Later jobs come through at once.
    client.insert(Task { n: 40 }).await.unwrap();
    database.until(completed, 37).await;
    runner.stop().await.unwrap();

    let error = async |id| {
        let error = format!(
            "SELECT state || ' ' || jsonb_array_length(errors) || ' ' || (errors #>> '{{-1,error}}')
            FROM {{schema}}.job WHERE id = '{id}'"
        );
        database.text(&error).await
    };
    for id in damaged_args.into_iter().chain([damaged_errors]) {
        let error = error(id).await;
        assert!(error.starts_with("discarded 1 the job's row cannot be read: "), "{error}");
    }
    let left = format!("SELECT state || ' ' || attempt FROM {{schema}}.job WHERE id = '{stuck}'");
    assert_eq!(database.text(&left).await, format!("{} 0", JobState::Available));
}
