//! Saga: each step has a job that undoes it.

use serde_json::json;
use uniqueue::{Client, NewJob};

async fn book(client: &Client, trip: u64) -> uniqueue::Result<()> {
    let step = |kind: &str| NewJob::new(kind, &json!({"trip": trip}));
    let flight = step("flight.book");
    let hotel = step("hotel.book").after(&flight);
    let car = step("car.book").after(&hotel);
    // Undone in the reverse order, and only what was done: `after` cancels the undo of a step that did not complete.
    let undo_hotel = step("hotel.undo").after(&hotel).after_failed(&car);
    let undo_flight = step("flight.undo").after(&flight).after_failed([&hotel, &car]).after_final(&undo_hotel);
    client.insert_many([flight, hotel, car, undo_hotel, undo_flight]).await?;
    Ok(())
}

use super::{crash, first_of, jobs, refuse, rescue, states, work, worked};
use support::Database;

const KINDS: [&str; 5] = ["flight.book", "hotel.book", "car.book", "hotel.undo", "flight.undo"];

#[support::test]
async fn without_a_failure_all_undo_jobs_are_cancelled(database: Database) {
    book(&database.client, 1).await.unwrap();
    assert_eq!(worked(&work(&database, &KINDS, "").await), ["flight.book", "hotel.book", "car.book"]);
    assert!(states(&database).await.ends_with("hotel.undo cancelled, flight.undo cancelled"));
}

#[tokio::test]
async fn what_was_done_is_undone_in_the_reverse_order() {
    for (failing, expected) in [
        ("car.book", &["flight.book", "hotel.book", "car.book", "hotel.undo", "flight.undo"][..]),
        ("hotel.book", &["flight.book", "hotel.book", "flight.undo"]),
        ("flight.book", &["flight.book"]),
    ] {
        let database = Database::new().await;
        book(&database.client, 1).await.unwrap();
        assert_eq!(worked(&work(&database, &KINDS, failing).await), expected, "{failing} is discarded");
        assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL").await, 0);
    }
}

#[support::test]
async fn a_cancelled_step_is_compensated_as_a_failed_one(database: Database) {
    book(&database.client, 1).await.unwrap();
    database.client.cancel(first_of(&database, "car.book").await).await.unwrap();
    let expected = ["flight.book", "hotel.book", "hotel.undo", "flight.undo"];
    assert_eq!(worked(&work(&database, &KINDS, "").await), expected);
}

#[support::test]
async fn at_a_crash_a_step_and_an_undo_job_are_tried_again(database: Database) {
    book(&database.client, 1).await.unwrap();
    crash(&database, "flight.book").await;
    assert_eq!(work(&database, &KINDS, "").await.jobs().len(), 0);
    rescue(&database).await;
    let without_undo = &KINDS[..3];
    assert_eq!(worked(&work(&database, without_undo, "car.book").await), ["flight.book", "hotel.book", "car.book"]);
    crash(&database, "hotel.undo").await;
    rescue(&database).await;
    assert_eq!(worked(&work(&database, &KINDS, "").await), ["hotel.undo", "flight.undo"]);
}

#[support::test]
async fn after_a_rollback_nothing_is_there_to_undo(database: Database) {
    refuse(&database, "flight.undo").await;
    assert!(book(&database.client, 1).await.is_err());
    assert_eq!(jobs(&database).await, 0);
}
