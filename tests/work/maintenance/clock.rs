//! The server's clock was ahead and went back: no lease, rate or hold lasts longer than its own length from then on. Times
//! stored in the future stand for such a clock.

use super::{caretaker, holder};
use support::prelude::*;

/// A runner's row and a job that it runs, taken by a clock an hour ahead.
async fn runs_an_hour_ahead(database: &Database, name: &str) -> (Uuid, uniqueue::JobId) {
    let (runner, job) = (Uuid::now_v7(), database.client.insert(Task { n: 1 }).await.unwrap().id());
    let insert = format!(
        "INSERT INTO {{schema}}.runner (id, name, queues, knows_groups, heartbeat_at, leased_until)
        VALUES ('{runner}', '{name}', '{{default}}', true, now() + interval '1 h', now() + interval '1 h 1 s')"
    );
    database.execute(&insert).await;
    let update = format!(
        "UPDATE {{schema}}.job SET state = 'running', worker = '{runner}', attempt = 1, run = 1,
            attempted_at = now() + interval '1 h'
        WHERE id = '{job}'"
    );
    database.execute(&update).await;
    (runner, job)
}

#[support::test]
async fn a_runner_that_died_before_the_clock_went_back_is_dead_after_its_lease(database: Database) {
    let (_, job) = runs_an_hour_ahead(&database, "dead").await;
    database.start(caretaker(&database).lease(SECOND)).await;
    eventually!(database.client.job(job).await.unwrap().unwrap().state != JobState::Running, "not rescued");
    let rescued = database.client.job(job).await.unwrap().unwrap();
    assert!(rescued.errors[0].error.starts_with("rescued: "), "{rescued:?}");
}

#[support::test]
async fn a_runner_that_lives_when_the_clock_goes_back_loses_nothing(database: Database) {
    let (id, job) = runs_an_hour_ahead(&database, "alive").await;
    database.start(caretaker(&database).lease(SECOND)).await;
    let ahead =
        "SELECT count(*) FROM {schema}.runner WHERE heartbeat_at > now() OR leased_until > now() + interval '1 min'";
    database.until(ahead, 0).await;
    // Its next heartbeats.
    for _ in 0..20 {
        let beat = format!(
            "UPDATE {{schema}}.runner SET heartbeat_at = now(), leased_until = now() + interval '1 s'
            WHERE id = '{id}' AND leased_until > now()"
        );
        assert_eq!(database.execute(&beat).await, 1, "the lease was lost");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(database.client.job(job).await.unwrap().unwrap().state, JobState::Running);
}

#[support::test]
async fn a_service_whose_holder_died_before_the_clock_went_back_is_free(database: Database) {
    let statement = "INSERT INTO {schema}.maintenance (service, holder, runner, taken_at, leased_until, ran_at)
        SELECT s, gen_random_uuid(), 'dead', now() + interval '1 h', now() + interval '1 h 3 s', now() + interval '1 h'
        FROM unnest(ARRAY['promoter', 'rescuer', 'pruner', 'periodic', 'reindexer']) AS s";
    database.execute(statement).await;
    // Switched off by an operator, as long as he said.
    let update =
        "UPDATE {schema}.maintenance SET holder = NULL, runner = NULL, leased_until = now() + interval '10 years'
        WHERE service = 'pruner'";
    database.execute(update).await;
    let job = database.client.insert(Task { n: 1 }).scheduled_in(Duration::from_millis(50)).await.unwrap();
    database.start(caretaker(&database).name("r")).await;
    for service in ["promoter", "rescuer", "periodic", "reindexer"] {
        eventually!(holder(&database, service).await == "r", "{service}");
    }
    database.until_state(job.id(), JobState::Available).await;
    database.until("SELECT count(*) FROM {schema}.maintenance WHERE service = 'reindexer' AND ran_at > now()", 0).await;
    assert_eq!(holder(&database, "pruner").await, "");
}

#[support::test]
async fn rates_and_holds_from_before_the_clock_went_back_end_after_their_own_length(database: Database) {
    let (client, tenth) = (&database.client, SECOND / 10);
    client.queue("rated").set(QueueChanges::new().rate(Some(Rate::per(1, tenth).burst(1)))).await.unwrap();
    client.queue("rated groups").set(QueueChanges::new().group_rate(Some(Rate::per(1, tenth).burst(1)))).await.unwrap();
    client.queue("held").hold(tenth).await.unwrap();
    client.queue("held group").hold_group("a", tenth).await.unwrap();
    client.queue("held by hand").hold(Duration::ZERO).await.unwrap();
    let statement = "INSERT INTO {schema}.queue_group (queue, group_key, rate_full_at)
        VALUES ('rated groups', 'a', now() + interval '1 h')";
    database.execute(statement).await;
    for table in ["queue", "queue_group"] {
        let update = format!(
            "UPDATE {{schema}}.{table} SET held_at = held_at + interval '1 h', held_until = held_until + interval '1 h'"
        );
        database.execute(&update).await;
    }
    database.execute("UPDATE {schema}.queue SET rate_full_at = now() + interval '1 h' WHERE name = 'rated'").await;
    let update =
        "UPDATE {schema}.queue SET held_at = now(), held_until = now() + interval '1 h' WHERE name = 'held by hand'";
    database.execute(update).await;
    let mut runner = database.runner().lease(SECOND).worker(at_once);
    for name in ["rated", "rated groups", "held", "held group", "held by hand"] {
        runner = runner.queue(name, 1);
        let job = database.client.insert(Task { n: 1 }).queue(name).group("a");
        job.await.unwrap();
    }
    database.start(runner).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state <> 'completed'", 1).await;
    let left = database.text("SELECT queue FROM {schema}.job WHERE state <> 'completed'").await;
    assert_eq!(left, "held by hand", "what an operator wrote stays");
}

#[support::test]
async fn what_was_set_less_than_a_second_ahead_stays(database: Database, client: &Client) {
    client.queue("q").hold(SECOND).await.unwrap();
    client.queue("q").set(QueueChanges::new().rate(Some(Rate::per(1, SECOND).burst(1)))).await.unwrap();
    client.queue("q").set(QueueChanges::new().group_rate(Some(Rate::per(1, SECOND).burst(1)))).await.unwrap();
    client.queue("q").hold_group("a", SECOND).await.unwrap();
    let (id, _) = runs_an_hour_ahead(&database, "r").await;
    let changed = async |ahead: &str| {
        for table in ["queue", "queue_group"] {
            let update = format!(
                "UPDATE {{schema}}.{table} SET held_at = clock_timestamp() + interval '{ahead}',
                rate_full_at = clock_timestamp() + interval '1 s' + interval '{ahead}'"
            );
            database.execute(&update).await;
        }
        let update = format!(
            "UPDATE {{schema}}.runner SET heartbeat_at = clock_timestamp() + interval '{ahead}' WHERE id = '{id}'"
        );
        database.execute(&update).await;
        database.number("SELECT {schema}._end_future_times()").await
    };
    assert_eq!(changed("900 ms").await, 0);
    assert_eq!(changed("1 min").await, 3);
}
