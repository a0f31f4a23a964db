//! Periodic jobs whose schedules are changed, malformed, or placed by a clock that went back since.

use uniqueue::CatchUp;
use uniqueue_admin::{PeriodicChange, PeriodicSource};

use super::caretaker;
use super::periodic::{slots, stored, until_placed};
use support::prelude::*;

#[support::test]
async fn a_schedule_or_a_zone_changed_in_the_table_begins_anew(database: Database) {
    let yearly = PeriodicJob::cron("a", "0 0 1 1 *", job("tick"));
    database.client.define_periodic(yearly).await.unwrap();
    database.start(caretaker(&database)).await;
    until_placed(&database).await;
    let next_in = "SELECT coalesce(extract(epoch FROM next_at - now())::bigint, 1000000000) FROM {schema}.periodic";
    for (change, at_most) in [
        ("schedule = '0 * * * *'", 3_600),
        // Auckland is half a day ahead of UTC, so its midnight is noon there.
        ("schedule = '30 12 * * *'", 86_400),
        ("time_zone = 'Pacific/Auckland'", 86_400),
        ("schedule = 'PT10S'", 10),
    ] {
        let before = stored(&database, "a").await;
        database.execute(&format!("UPDATE {{schema}}.periodic SET {change}")).await;
        eventually!(
            let after = stored(&database, "a").await;
            after.next_at.is_some() && after.next_at != before.next_at && after.starts_at > before.starts_at, "{change}"
        );
        assert!(database.number(next_in).await <= at_most, "{change}");
    }
    // A time that is written with the schedule counts.
    database.execute("UPDATE {schema}.periodic SET schedule = '0 0 1 1 *', next_at = now() - interval '1 s'").await;
    eventually!(slots(&database, "a").await.0 > 0, "not run");
}

#[support::test]
async fn a_runner_that_read_the_old_schedule_does_not_place_the_new_one(database: Database) {
    database.client.define_periodic(PeriodicJob::cron("a", "0 0 1 1 *", job("tick"))).await.unwrap();
    let seen = database.text("SELECT starts_at::text FROM {schema}.periodic").await;
    database.execute("UPDATE {schema}.periodic SET schedule = 'PT1H'").await;
    let run = format!(
        "SELECT count(*) FROM {{schema}}.run_periodic('a', NULL, '{seen}', ARRAY[now()], now() + interval '300 days')"
    );
    assert_eq!(database.number(&run).await, 0);
    assert_eq!(stored(&database, "a").await.next_at, None);
}

#[support::test]
async fn a_slot_placed_before_the_clock_went_back_is_not_waited_for(database: Database) {
    for name in ["placed", "unplaced", "by hand"] {
        database.client.define_periodic(PeriodicJob::every(name, 2 * SECOND, job("tick"))).await.unwrap();
    }
    // As a clock two days ahead would leave them. The trigger notes when a time was set, so it is set last.
    let update = "UPDATE {schema}.periodic SET next_at = now() + interval '2 days' WHERE name IN ('placed', 'by hand')";
    database.execute(update).await;
    let update = "UPDATE {schema}.periodic SET starts_at = now() + interval '2 days' WHERE name = 'unplaced'";
    database.execute(update).await;
    let update = "UPDATE {schema}.periodic SET placed_at = now() + interval '2 days' WHERE name <> 'by hand'";
    database.execute(update).await;
    database.start(caretaker(&database)).await;
    for name in ["placed", "unplaced"] {
        eventually!(slots(&database, name).await.0 > 1, "{name}");
    }
    assert_eq!(slots(&database, "by hand").await.0, 0, "a time that an operator set is waited for");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.periodic WHERE placed_at > now()").await, 0);
}

#[support::test]
async fn malformed_schedules_in_the_table_delay_nothing_and_are_named(database: Database) {
    let insert = "INSERT INTO {schema}.periodic (name, kind, schedule)
        SELECT 'bad ' || n, 'tick', s FROM unnest(ARRAY[
            ', * * * * *', '* , * * *', '0 0 30 2 *', '0 0 31 2,4,6,9,11 *', '59 59 23 , * *', repeat('1,', 490) || '1 * * * *'
        ]) WITH ORDINALITY AS b (s, n)";
    database.execute(insert).await;
    let too_long = "INSERT INTO {schema}.periodic (name, kind, schedule) VALUES ('long', 'tick', repeat('1,', 500) || '1 * * * *')";
    let (_, refused) = database.refused(too_long).await;
    assert!(refused.contains("periodic_schedule_short"), "{refused}");
    database.client.define_periodic(PeriodicJob::every("good", SECOND, job("tick"))).await.unwrap();
    database.start(caretaker(&database)).await;
    eventually!(slots(&database, "good").await.0 > 2, "the good one is held up");
    database.until("SELECT count(*) FROM {schema}.periodic WHERE problem LIKE 'invalid schedule: %'", 5).await;
    let (_, distinct, span) = slots(&database, "good").await;
    assert_eq!(distinct, span, "no slot was late for another");
    let diagnosis = Admin::new(&database.client).diagnose().await.unwrap();
    let named = diagnosis.findings.iter().filter(|finding| finding.code == "periodic_problem");
    assert_eq!(named.count(), 5);
}

#[support::test]
async fn a_slot_whose_job_the_database_refuses_delays_no_other(database: Database) {
    database.trigger("BEFORE INSERT", "NEW.kind = 'bad'", "RAISE EXCEPTION 'not today';").await;
    for (name, kind) in [("a", "bad"), ("b", "tick")] {
        database.client.define_periodic(PeriodicJob::every(name, SECOND, job(kind))).await.unwrap();
    }
    database.start(caretaker(&database)).await;
    eventually!(slots(&database, "b").await.0 > 2, "the good one is held up");
    let problem = stored(&database, "a").await.problem;
    assert!(problem.as_ref().is_some_and(|problem| problem.contains("not today")), "{problem:?}");
}

#[support::test]
async fn a_periodic_job_is_changed_in_part(database: Database) {
    let periodic = Admin::new(&database.client).periodic();
    let all = PeriodicJob::cron("a", "0 9 * * *", job("tick")).catch_up(CatchUp::All);
    database.client.define_periodic(all).await.unwrap();
    let args = serde_json::value::to_raw_value(&json!({"depth": 2})).unwrap();
    let change = PeriodicChange::new().time_zone("Europe/Berlin").args(args).priority(3).queue("slow");
    assert!(periodic.set("a", change).await.unwrap());
    let row = stored(&database, "a").await;
    let expected = ("0 9 * * *", "Europe/Berlin", CatchUp::All);
    assert_eq!((row.schedule.as_str(), row.time_zone.as_str(), row.catch_up), expected);
    assert_eq!((row.args.get(), row.priority, row.queue.as_str()), ("{\"depth\": 2}", 3, "slow"));
    // The args null are a value, and not the lack of one.
    let null = PeriodicChange::new().args(serde_json::value::to_raw_value(&json!(null)).unwrap());
    assert!(periodic.set("a", null).await.unwrap());
    assert_eq!(stored(&database, "a").await.args.get(), "null");
    assert!(!periodic.set("nobody", PeriodicChange::new().priority(1)).await.unwrap());
    for change in [
        PeriodicChange::new().schedule("0 9 * *"),
        PeriodicChange::new().time_zone("Europe/Berln"),
        PeriodicChange::new().kind(""),
        PeriodicChange::new().queue("\u{1}"),
    ] {
        assert!(periodic.set("a", change.clone()).await.is_err(), "{change:?}");
    }
    assert_eq!(stored(&database, "a").await.schedule, "0 9 * * *");
}

#[support::test]
async fn a_periodic_job_is_defined_and_changed_in_sql(database: Database) {
    let answer = async |call: &str| {
        let query = format!("SELECT {{schema}}.set_periodic({call})");
        sqlx::query_scalar::<_, bool>(database.sql(&query)).fetch_one(database.pool()).await
    };
    assert!(answer("'a', 'tick', '0 9 * * *'").await.unwrap());
    assert!(!answer("'a', time_zone => 'Europe/Berlin'").await.unwrap());
    assert!(!answer("'a', kind => 'tock', args => '{\"n\": 1}'").await.unwrap());
    let row = stored(&database, "a").await;
    assert_eq!((row.args.get(), row.max_attempts, row.source), ("{\"n\": 1}", 25, PeriodicSource::Database));
    let expected = ("tock", "0 9 * * *", "Europe/Berlin");
    assert_eq!((row.kind.as_str(), row.schedule.as_str(), row.time_zone.as_str()), expected);
    for call in ["'b'", "'b', 'tick'", "'b', schedule => 'PT1H'", "NULL"] {
        let error = answer(call).await.unwrap_err().to_string();
        assert!(error.contains("unknown periodic job"), "{call}: {error}");
    }
    assert_eq!(Admin::new(&database.client).periodic().list().await.unwrap().len(), 1);
}
