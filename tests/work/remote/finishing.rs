//! What becomes of a remote worker's results.

use super::{Fetched, Remote, refusal};
use support::prelude::*;

async fn one(database: &Database) -> (Remote, Fetched) {
    let worker = Remote::new(database, "w");
    database.client.insert(job("j").max_attempts(3)).await.unwrap();
    let fetched = worker.fetch_one().await;
    (worker, fetched)
}

#[tokio::test]
async fn each_outcome_does_to_the_job_what_it_does_in_a_runner() {
    let all = |outcome: &str, rest: &str| format!(", ARRAY['{outcome}']{rest}");
    let cases = [
        (all("complete", ""), "completed", "1 0"),
        (all("complete", ", outputs => ARRAY['{\"a\": 1}']"), "completed", "1 0"),
        (all("retry", ", errors => ARRAY['bad']"), "retryable", "1 1"),
        (all("retry", ", errors => ARRAY['bad'], delays => ARRAY[interval '0']"), "available", "1 1"),
        (all("snooze", ", delays => ARRAY[interval '1 hour']"), "scheduled", "0 0"),
        (all("snooze", ", delays => ARRAY[interval '0']"), "available", "0 0"),
        (all("give_back", ""), "available", "0 0"),
        (all("interrupt", ""), "available", "0 0"),
        (all("cancel", ", errors => ARRAY['not wanted']"), "cancelled", "1 1"),
        (all("discard", ", errors => ARRAY['hopeless']"), "discarded", "1 1"),
    ];
    let database = Database::new().await;
    for (rest, state, attempt_and_errors) in cases {
        let (worker, fetched) = one(&database).await;
        assert_eq!(worker.end_one(&fetched, "finish_jobs", &rest).await, (true, state.to_owned()), "{rest}");
        let row = database.row(fetched.id.into()).await;
        assert_eq!(row.state.as_str(), state, "{rest}");
        assert_eq!(format!("{} {}", row.attempt, row.errors.len()), attempt_and_errors, "{rest}");
        assert_eq!(row.finalized_at.is_some(), row.state.is_final(), "{rest}");
        assert_eq!(row.output.is_some(), rest.contains("outputs"), "{rest}");
        if let Some(error) = row.errors.first() {
            assert!(rest.contains(&error.error), "{error:?}");
        }
        database.client.delete(row.id).await.unwrap();
    }
}

#[support::test]
async fn a_job_that_was_due_before_all_time_ends_and_its_wait_is_not_counted(database: Database) {
    database.client.insert(job("j")).await.unwrap();
    database.execute("UPDATE {schema}.job SET scheduled_at = '-infinity'").await;
    let worker = Remote::new(&database, "w");
    let fetched = worker.fetch_one().await;
    assert_eq!(worker.complete(&fetched).await, (true, "completed".to_owned()));
    assert_eq!(database.text("SELECT waits::text FROM {schema}.history_tally").await, "{NULL}");
    database.execute("SELECT {schema}._tend_history()").await;
    let counts = Admin::new(&database.client).history_totals().await.unwrap().remove(0).counts;
    assert_eq!((counts.completed, counts.wait.count(), counts.run.count()), (1, 0, 1));
    assert!(counts.wait.sum().is_zero());
}

#[support::test]
async fn a_job_without_an_attempt_left_is_discarded(database: Database) {
    let (worker, first) = one(&database).await;
    let fail = ", ARRAY['bad'], ARRAY[interval '0']";
    assert_eq!(worker.end_one(&first, "fail_jobs", fail).await.1, "available");
    let second = worker.fetch_one().await;
    assert_eq!((second.attempt, second.errors[0]["error"].as_str()), (2, Some("bad")));
    worker.end_one(&second, "fail_jobs", fail).await;
    let third = worker.fetch_one().await;
    assert_eq!(worker.end_one(&third, "fail_jobs", fail).await, (true, "discarded".to_owned()));
}

#[support::test]
async fn without_a_delay_the_wait_is_that_of_the_default_policy(database: Database) {
    // As RetryPolicy::exponential: a tenth more or less, and at the limit only less.
    let spread = "SELECT string_agg(concat_ws(' ', a, round(min::numeric, 1), round(max::numeric, 1)), ', ' ORDER BY a)
        FROM (
            SELECT
                p.attempt AS a, min(extract(epoch FROM {schema}._retry_delay(p.attempt, NULL)) / p.wait),
                max(extract(epoch FROM {schema}._retry_delay(p.attempt, NULL)) / p.wait)
            FROM (VALUES (1, 1), (5, 16), (12, 2048), (13, 3600), (30000, 3600)) AS p (attempt, wait), generate_series(1, 2000)
            GROUP BY p.attempt
        ) AS w";
    assert_eq!(database.text(spread).await, "1 0.9 1.1, 5 0.9 1.1, 12 0.9 1.1, 13 0.9 1.0, 30000 0.9 1.0");
    let (worker, fetched) = one(&database).await;
    worker.end_one(&fetched, "fail_jobs", ", ARRAY['bad']").await;
    let waits = "SELECT (extract(epoch FROM scheduled_at - (errors -> 0 ->> 'at')::timestamptz) * 1000)::bigint FROM {schema}.job";
    assert!((900..=1_101).contains(&database.number(waits).await));
}

#[support::test]
async fn without_a_delay_the_wait_is_that_of_the_registered_kind(database: Database) {
    // As RetryPolicy has it, the odd ones included.
    for (backoff, waits) in [
        (r#"{"first": "10s", "jitter": 0}"#, "10 20 3600"),
        (r#"{"first": "PT2H", "factor": 3, "jitter": 0}"#, "7200 7200 7200"),
        (r#"{"factor": 1000, "max_interval": "1h30m", "jitter": 0}"#, "1 1000 5400"),
        (r#"{"first": "30s", "factor": 1}"#, "30 30 30"),
        (r#"{"first": "PT0S", "factor": 9}"#, "0 0 0"),
    ] {
        let given = format!(
            "SELECT string_agg(extract(epoch FROM {{schema}}._retry_delay(a, '{backoff}'))::integer::text, ' ' ORDER BY a)
            FROM unnest('{{1, 2, 32767}}'::integer[]) AS a"
        );
        assert_eq!(database.text(&given).await, waits, "{backoff}");
    }
    database.execute(r#"SELECT {schema}.register_kind('j', backoff => '{"first": "7m", "jitter": 0}')"#).await;
    // Another registration that says nothing of it leaves it.
    database.execute("SELECT {schema}.register_kind('j', priority => 1)").await;
    let (worker, fetched) = one(&database).await;
    worker.end_one(&fetched, "fail_jobs", ", ARRAY['bad']").await;
    let waits =
        "SELECT (extract(epoch FROM scheduled_at - (errors -> 0 ->> 'at')::timestamptz))::bigint FROM {schema}.job";
    assert_eq!(database.number(waits).await, 420);
    database.execute("SELECT {schema}.register_kind('j', backoff => '{}')").await;
    assert_eq!(database.number("SELECT count(*) FROM {schema}.kind WHERE backoff IS NULL").await, 1);
}

#[support::test]
async fn a_result_that_is_sent_again_changes_nothing_and_says_the_state(database: Database) {
    let (worker, fetched) = one(&database).await;
    assert_eq!(worker.complete(&fetched).await, (true, "completed".to_owned()));
    let before = database.text("SELECT j::text FROM {schema}.job AS j").await;
    assert_eq!(worker.complete(&fetched).await, (false, "completed".to_owned()));
    assert_eq!(worker.end_one(&fetched, "fail_jobs", ", ARRAY['late']").await, (false, "completed".to_owned()));
    assert_eq!(database.text("SELECT j::text FROM {schema}.job AS j").await, before);
    database.client.delete(JobId::from(fetched.id)).await.unwrap();
    assert_eq!(worker.complete(&fetched).await, (false, String::new()));
}

#[support::test]
async fn answers_come_in_the_order_of_the_input_also_for_jobs_given_twice(database: Database) {
    let worker = Remote::new(&database, "w");
    database.client.insert_many((0..6).map(|_| job("j"))).await.unwrap();
    let mut jobs = worker.fetch(6).await;
    jobs.reverse();
    let stale = Fetched { run: 7, ..jobs[1].clone() };
    let unknown = Fetched { id: uuid::Uuid::nil(), ..jobs[0].clone() };
    let given = [jobs[3].clone(), stale, jobs[0].clone(), unknown, jobs[2].clone(), jobs[0].clone()];
    let ended = worker.end(&given, "complete_jobs", "").await;
    let said: Vec<_> = ended.iter().map(|ended| (ended.id, ended.counted, ended.state.as_deref())).collect();
    let expected = [
        (given[0].id, true, Some("completed")),
        (given[1].id, false, Some("running")),
        (given[2].id, true, Some("completed")),
        (given[3].id, false, None),
        (given[4].id, true, Some("completed")),
        (given[5].id, false, Some("completed")),
    ];
    assert_eq!(said, expected);
    // In a mix, each job has its own values.
    let mixed = ", ARRAY['discard', 'complete'], errors => ARRAY['why', NULL], outputs => ARRAY[NULL, '5']";
    let rest = [jobs[4].clone(), jobs[5].clone()];
    worker.end(&rest, "finish_jobs", mixed).await;
    let (first, second) = (database.row(rest[0].id.into()).await, database.row(rest[1].id.into()).await);
    assert_eq!((first.state, &*first.errors[0].error), (JobState::Discarded, "why"));
    assert_eq!((second.state, second.output), (JobState::Completed, Some(json!(5))));
}

#[support::test]
async fn of_two_results_of_one_run_in_one_call_the_first_counts(database: Database) {
    let (worker, fetched) = one(&database).await;
    let both = [fetched.clone(), fetched.clone()];
    let mixed = ", ARRAY['cancel', 'complete'], errors => ARRAY['why', NULL], outputs => ARRAY[NULL, '5']";
    let ended = worker.end(&both, "finish_jobs", mixed).await;
    let said: Vec<_> = ended.iter().map(|ended| (ended.counted, ended.state.as_deref())).collect();
    assert_eq!(said, [(true, Some("cancelled")), (false, Some("cancelled"))]);
    let row = database.row(fetched.id.into()).await;
    assert_eq!((row.state, row.output), (JobState::Cancelled, None));
}

#[support::test]
async fn effect_and_completion_are_one_in_the_workers_own_transaction(database: Database) {
    let (worker, fetched) = one(&database).await;
    database.execute("CREATE TABLE {schema}.effect (n integer)").await;
    let complete = || worker.sql("SELECT counted FROM {schema}.complete_jobs(ARRAY[$1::uuid], ARRAY[$2])");
    for (commits, effects) in [(false, 0), (true, 1)] {
        let mut tx = worker.pool.begin().await.unwrap();
        sqlx::query(worker.sql("INSERT INTO {schema}.effect VALUES (1)")).execute(&mut *tx).await.unwrap();
        let counted: bool =
            sqlx::query_scalar(complete()).bind(fetched.id).bind(fetched.run).fetch_one(&mut *tx).await.unwrap();
        assert!(counted);
        support::end(tx, commits).await;
        let done = "SELECT count(*) FROM {schema}.effect, {schema}.job WHERE state = 'completed'";
        assert_eq!(database.number(done).await, effects);
    }
}

#[support::test]
async fn a_job_whose_key_is_taken_on_its_way_back_is_discarded_and_says_so(database: Database) {
    let worker = Remote::new(&database, "w");
    let key = || UniqueKey::raw("k").scope(UniqueScope::Queued).on_reentry(OnReentry::Discard);
    database.client.insert(job("j").unique_key(key())).await.unwrap();
    let fetched = worker.fetch_one().await;
    database.client.insert(job("j").unique_key(key())).await.unwrap();
    let ended = worker.end_one(&fetched, "fail_jobs", ", ARRAY['bad']").await;
    assert_eq!(ended, (true, "discarded".to_owned()));
}

#[support::test]
async fn arguments_that_do_not_fit_are_refused_and_nothing_is_changed(database: Database) {
    let (worker, fetched) = one(&database).await;
    let jobs = [fetched.clone()];
    for (call, rest, problem) in [
        (
            "finish_jobs",
            ", ARRAY['done']",
            "invalid outcome: must be complete, retry, snooze, give_back, interrupt, cancel or discard: \"done\"",
        ),
        (
            "finish_jobs",
            ", NULL",
            "invalid outcome: must be complete, retry, snooze, give_back, interrupt, cancel or discard: null",
        ),
        ("finish_jobs", ", ARRAY['cancel']", "invalid error: must be given for outcome cancel: null"),
        ("fail_jobs", ", NULL", "invalid error: must be given for outcome retry: null"),
        ("snooze_jobs", ", NULL", "invalid delay: must be given for outcome snooze: null"),
        ("snooze_jobs", ", ARRAY[interval '-1 s']", "invalid delay: must be 0 to 1000 years: -00:00:01"),
        ("snooze_jobs", ", ARRAY[interval '2000 years']", "invalid delay: must be 0 to 1000 years: 2000 years"),
        (
            "complete_jobs",
            ", ARRAY[]::text[]",
            "invalid arguments: each array must be null or as long as ids, which has 1: 0",
        ),
    ] {
        let answer = worker.try_end(&jobs, call, rest).await;
        assert_eq!(refusal(answer), ("22023".to_owned(), problem.to_owned()), "{call}{rest}");
    }
    for (arguments, problem) in [
        ("NULL, NULL", "invalid ids and runs: must be two arrays of one length: null and null"),
        ("'{}', '{1}'", "invalid ids and runs: must be two arrays of one length: 0 and 1"),
        ("ARRAY[NULL::uuid], '{1}'", "invalid ids and runs: must not hold null"),
    ] {
        for call in ["complete_jobs", "give_back_jobs", "extend_jobs"] {
            let answer = sqlx::query(worker.sql(&format!("SELECT FROM {{schema}}.{call}({arguments})")));
            let answer = refusal(answer.execute(&worker.pool).await);
            assert_eq!(answer, ("22023".to_owned(), problem.to_owned()), "{call}({arguments})");
        }
    }
    assert!(worker.end(&[], "complete_jobs", "").await.is_empty());
    assert!(worker.extend(&jobs).await[0].held);
}
