//! Groups of periodic jobs.

use uniqueue::{NewJob, PeriodicJob};

use super::Task;
use support::Database;

#[support::test]
async fn the_jobs_of_a_periodic_job_have_its_group(database: Database) {
    let job = NewJob::from(Task { n: 1 }).group("reports").group_limit(2);
    database.client.periodic().define(PeriodicJob::cron("report", "0 9 * * *", job)).await.unwrap();
    database.client.periodic().run_now("report").await.unwrap();
    let group = "SELECT concat_ws(' ', group_key, group_limit, in_order) FROM {schema}.job";
    assert_eq!(database.text(group).await, "reports 2");
}
