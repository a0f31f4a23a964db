//! Periodic jobs of code: defined differently by two services, or by none.

use support::prelude::*;
use uniqueue_admin::{Severity, Thresholds};

use super::{diagnose, find, gone, paste};

#[derive(Debug, serde::Deserialize, uniqueue::Job, serde::Serialize)]
#[job(kind = "task")]
struct Task {}

async fn service(database: &Database, name: &str, schedule: &str) -> RunnerHandle {
    Runner::new(database.client.clone())
        .name(name)
        .queue("default", 1)
        .worker(async |_: RunningJob<Task>| {})
        .periodic(PeriodicJob::cron("report", schedule, job("tick")))
        .start()
        .await
        .unwrap()
}

#[support::test]
async fn two_services_that_define_one_periodic_job_differently_are_found(database: Database) {
    let at_nine = service(&database, "billing", "0 9 * * *").await;
    let same = service(&database, "billing too", "0 9 * * *").await;
    let found = diagnose(&database, Thresholds::new()).await;
    assert!(found.findings.iter().all(|finding| finding.code != "periodic_conflict"), "{found:#?}");
    let at_ten = service(&database, "mailing", "0 10 * * *").await;
    let limits = Thresholds::new();
    let found = find(&database, limits.clone(), "periodic_conflict", Severity::Warning, "periodic job report").await;
    assert_eq!(
        found.seen,
        "live runners have 2 definitions of it, such as billing, mailing; the one that started last counts"
    );
    paste(&database, found.remedy.sql.as_deref().unwrap()).await;
    at_ten.stop().await.unwrap();
    gone(&database, limits.clone(), "periodic_conflict", "report").await;
    same.stop().await.unwrap();
    at_nine.stop().await.unwrap();
}

#[support::test]
async fn a_periodic_job_that_no_code_defines_any_more_is_found(database: Database) {
    service(&database, "old", "0 9 * * *").await.stop().await.unwrap();
    database.client.define_periodic(PeriodicJob::cron("by hand", "0 9 * * *", job("tick"))).await.unwrap();
    let limits = Thresholds::new();
    // Without a live runner nothing is known.
    gone(&database, limits.clone(), "periodic_undefined", "").await;
    let new = Runner::new(database.client.clone()).queue("default", 1).worker(async |_: RunningJob<Task>| {});
    let new = new.start().await.unwrap();
    let found = find(&database, limits.clone(), "periodic_undefined", Severity::Notice, "periodic job report").await;
    paste(&database, found.remedy.sql.as_deref().unwrap()).await;
    gone(&database, limits.clone(), "periodic_undefined", "").await;
    assert_eq!(Admin::new(&database.client).periodic().list().await.unwrap().len(), 1);
    new.stop().await.unwrap();
}
