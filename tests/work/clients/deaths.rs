//! Worker processes that are killed, and that are suspended for longer than their reservation.

use uniqueue::testing::Database;

use super::suites::{GATE, KIND, Language, QUEUE, database, execute, languages, number, open_gate, until};
use crate::groups::{HISTORY, assert_kept};
use support::clients::Program;
use support::prelude::*;

async fn insert(database: &Database) -> JobId {
    database.client().insert(NewJob::new(KIND, &json!({})).queue(QUEUE)).await.unwrap().id()
}

/// Waits until somebody works the job.
async fn visited(database: &Database, id: JobId, who: &str) {
    until(database, &format!("SELECT count(*) FROM visit WHERE job = '{id}' AND who = '{who}'"), 1).await;
}

async fn output(database: &Database, id: JobId) -> Option<Value> {
    database.client().wait(id).timeout(2 * WAIT).await.unwrap().output().unwrap()
}

async fn comes_back_after_a_kill(language: Language) {
    let database = database(GATE).await;
    let id = insert(&database).await;
    let first = language.start(&database, "first", 1, 1);
    visited(&database, id, "first").await;
    first.signal("KILL");
    let _second = language.start(&database, "second", 1, 1);
    visited(&database, id, "second").await;
    open_gate(&database).await;
    assert_eq!(output(&database, id).await, Some(json!({"by": "second"})));
}

async fn does_not_count_after_a_pause(language: Language) {
    let database = database(GATE).await;
    let id = insert(&database).await;
    let first = language.start(&database, "first", 1, 1);
    visited(&database, id, "first").await;
    first.signal("STOP");
    let second = language.start(&database, "second", 1, 1);
    visited(&database, id, "second").await;
    open_gate(&database).await;
    assert_eq!(output(&database, id).await, Some(json!({"by": "second"})));
    // The first one goes on, and ends the job as well. That does not count. Then it works the next job.
    drop(second);
    first.signal("CONT");
    let next = insert(&database).await;
    assert_eq!(output(&database, next).await, Some(json!({"by": "first"})));
    assert_eq!(output(&database, id).await, Some(json!({"by": "second"})));
    assert_eq!(number(&database, "SELECT count(*) FROM uniqueue.job WHERE state = 'completed'").await, 2);
}

#[tokio::test]
async fn job_of_a_killed_worker_comes_back() {
    for language in languages() {
        comes_back_after_a_kill(language).await;
    }
}

#[tokio::test]
async fn result_of_a_worker_that_stood_still_does_not_count() {
    for language in languages() {
        does_not_count_after_a_pause(language).await;
    }
}

#[tokio::test]
async fn crowd_loses_no_job_when_one_is_killed_and_one_stands_still() {
    const JOBS: i64 = 300;
    let [one, other] = languages()[..] else { return };
    let database = database("SELECT true").await;
    database.client().insert_many((0..JOBS).map(|n| NewJob::new(KIND, &json!({"n": n})).queue(QUEUE))).await.unwrap();
    let killed = one.start(&database, "killed", 4, 1);
    let paused = other.start(&database, "paused", 4, 1);
    for (who, program, signal) in [("killed", &killed, "KILL"), ("paused", &paused, "STOP")] {
        until(&database, &format!("SELECT least(count(*), 10) FROM visit WHERE who = '{who}'"), 10).await;
        program.signal(signal);
    }
    let _heirs = [one.start(&database, "heir", 4, 1), other.start(&database, "another heir", 4, 1)];
    until(&database, "SELECT count(*) FROM uniqueue.job WHERE state = 'completed'", JOBS).await;
    paused.signal("CONT");
    // Each job was worked, and only those that the two had in hand were worked twice.
    assert_eq!(number(&database, "SELECT count(DISTINCT job) FROM visit").await, JOBS);
    let again = number(&database, "SELECT count(*) - count(DISTINCT job) FROM visit").await;
    assert!(again <= 8, "{again} jobs were worked again");
}

/// Processes that are killed, stand still beyond their reservation, share a name, and lose answers with their connections.
#[tokio::test]
async fn limits_and_order_are_exact_while_worker_processes_die_and_stand_still() {
    let languages = languages();
    if languages.is_empty() {
        return;
    }
    let database = database("SELECT true").await;
    execute(&database, &HISTORY.replace("{schema}", "uniqueue")).await;
    let jobs: u64 = soak(240, 2_000);
    let jobs_of_groups = (0..jobs).map(|n| {
        let job = NewJob::new(KIND, &json!({"n": n})).queue(QUEUE).group(format!("g{}", n % 8)).max_attempts(1_000);
        if n % 4 == 0 { job.in_order() } else { job.group_limit(u16::try_from(n % 8 % 3).unwrap() + 1) }
    });
    database.client().insert_many(jobs_of_groups).await.unwrap();
    let start = |n: usize, name: &str| {
        let mut command = languages[n % languages.len()].worker(&database, &format!("{name} {n}"), 3, 1);
        Program::start(command.env("NAME", name))
    };
    let mut crowd = [start(0, "alone"), start(1, "both"), start(2, "both"), start(3, "another")];
    let left = "SELECT count(*) FROM uniqueue.job WHERE finalized_at IS NULL";
    let ended = "SELECT least(count(*), 10) FROM uniqueue.job WHERE finalized_at IS NOT NULL";
    until(&database, ended, 10).await;
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE '%_jobs%' AND pid <> pg_backend_pid() AND query LIKE '%=>%'";
    for round in 0.. {
        let before = number(&database, left).await;
        if before == 0 {
            break;
        }
        match round % 4 {
            0 => drop(std::mem::replace(&mut crowd[0], start(4 + round, "alone"))),
            1 => crowd[1].signal("STOP"),
            2 => {
                number(&database, cut).await;
            }
            _ => crowd[1].signal("CONT"),
        }
        // The next fault comes after some more jobs. A stopped process stands still beyond its reservation.
        let rest = format!("SELECT (SELECT count(*) FROM uniqueue.job WHERE finalized_at IS NULL) > {}", before - 15);
        let began = std::time::Instant::now();
        while number(&database, &format!("SELECT ({rest})::integer::bigint")).await == 1 && began.elapsed() < WAIT / 10
        {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    assert_kept(database.pool(), "uniqueue").await;
    // A job that three processes died with is taken for their killer.
    let worked = "SELECT count(*) FROM uniqueue.job
        WHERE (state = 'completed' OR state = 'discarded' AND crashes > 2) AND id IN (SELECT job FROM visit)";
    assert_eq!(number(&database, worked).await, i64::try_from(jobs).unwrap());
}

/// For this long, with twenty workers. Unset: with five workers, until few jobs have ended.
const SECONDS: &str = "UNIQUEUE_DEATHS_SECONDS";

#[tokio::test]
async fn python_workers_that_end_jobs_with_bad_values_are_killed_and_lose_none() {
    loses_no_job_with_bad_values(Language::Python).await;
}

#[tokio::test]
async fn node_workers_that_end_jobs_with_bad_values_are_killed_and_lose_none() {
    loses_no_job_with_bad_values(Language::Node).await;
}

async fn loses_no_job_with_bad_values(language: Language) {
    if language.command().is_none() {
        return;
    }
    let seconds: u64 = std::env::var(SECONDS).map_or(0, |text| text.parse().expect(SECONDS));
    let (workers, batch) = if seconds == 0 { (5, 120) } else { (20, 900) };
    let database = database("SELECT true").await;
    let mut program = language.program(include_str!("bad_values.py"), include_str!("bad_values.mjs"));
    program.env("DATABASE_URL", database.url());
    program.env("QUEUE", QUEUE).env("KIND", KIND).env("CONCURRENCY", "3").env("RESERVE", "2");
    let insert = async || {
        let jobs = (0..batch).map(|n| NewJob::new(KIND, &json!({"n": n})).queue(QUEUE).max_attempts(1_000));
        database.client().insert_many(jobs).await.unwrap();
    };
    insert().await;
    let mut crowd: Vec<_> = (0..workers).map(|_| Program::start(&mut program)).collect();
    let left = "SELECT count(*) FROM uniqueue.job WHERE finalized_at IS NULL";
    let began = std::time::Instant::now();
    let mut kills = 0_usize;
    loop {
        let before = number(&database, left).await;
        if before < batch / 3 && began.elapsed().as_secs() < seconds {
            insert().await;
        } else if before == 0 {
            break;
        } else if kills < workers || seconds > 0 {
            // The next death comes after some more jobs. Its successor takes its place.
            let ended = format!("SELECT (({left}) <= {})::integer::bigint", (before - 10).max(0));
            until(&database, &ended, 1).await;
            // Dropping it sends SIGKILL.
            let place = kills % workers;
            drop(std::mem::replace(&mut crowd[place], Program::start(&mut program)));
            kills += 1;
        } else {
            until(&database, left, 0).await;
        }
    }
    println!("{kills} deaths of {workers} workers");
    let kind = "args ->> 'n'";
    let number_of = |condition: &str| format!("SELECT count(*) FROM uniqueue.job WHERE {condition}");
    // A job that three processes died with is taken for their killer. No other job is lost.
    let lost = number_of("state <> 'completed' AND NOT (state = 'discarded' AND crashes > 2)");
    assert_eq!(number(&database, &lost).await, 0);
    // A value that cannot be stored is dropped. A failed attempt is followed by another.
    let wrong = number_of(&format!(
        "state = 'completed' AND CASE ({kind})::integer % 9
            WHEN 0 THEN output IS NOT NULL
            WHEN 1 THEN output IS NOT NULL
            WHEN 8 THEN output IS DISTINCT FROM '{{\"by\": \"the first attempt\"}}' AND errors = '[]'
            ELSE output IS DISTINCT FROM '{{\"by\": \"another attempt\"}}' OR errors = '[]'
        END"
    ));
    assert_eq!(number(&database, &wrong).await, 0);
    assert_eq!(number(&database, &number_of("progress IS NOT NULL")).await, 0);
    let crashes = number_of("errors::text LIKE '%the worker died%'");
    assert!(number(&database, &crashes).await > 0, "no death met a job");
}
