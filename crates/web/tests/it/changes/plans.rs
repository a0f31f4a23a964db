//! Plans, which change many jobs.

use axum::Router;
use axum::http::StatusCode;
use test_support::prelude::*;
use uniqueue_web::{Access, Right, Web};

use super::{dashboard, ended, insert, job, post, run};
use crate::support::{get, slow_down};

#[test_support::test]
async fn a_plan_changes_the_jobs_that_it_showed_and_no_later_ones(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    let ids = [insert(client).await, insert(client).await, insert(client).await];
    let plan = post(&router, "/bulk", "verb=cancel&whole=yes&kind=mail").await.header("location").to_owned();
    let shown = get(&router, &plan).await.body;
    assert!(shown.contains("Cancel 3 jobs"), "{shown}");
    assert_eq!(job(client, ids[0]).await.state, JobState::Available, "a plan changes nothing");
    let later = insert(client).await;
    let page = run(&router, &plan, "").await;
    assert!(page.contains("Done."), "{page}");
    assert_eq!(job(client, ids[2]).await.state, JobState::Cancelled);
    assert_eq!(job(client, later).await.state, JobState::Available);

    // Of ticked jobs, only those.
    let plan = post(&router, "/bulk", &format!("verb=retry&id={}&id={}", ids[0], ids[1])).await;
    run(&router, plan.header("location"), "").await;
    assert_eq!(job(client, ids[1]).await.state, JobState::Available);
    assert_eq!(job(client, ids[2]).await.state, JobState::Cancelled);
    assert_eq!(post(&router, "/bulk", "verb=retry").await.status, StatusCode::BAD_REQUEST, "nothing is ticked");
}

/// A dashboard whose pool stops statements after half a second, as that of `serve` does after two.
async fn impatient(database: &Database) -> Router {
    let options = database.pool().connect_options().as_ref().clone().options([("statement_timeout", "500ms")]);
    let pool = PgPoolOptions::new().max_connections(5).connect_with(options).await.unwrap();
    let client = Client::builder().schema(database.client.schema().clone()).pool(pool);
    Web::new(client).access(|_| Access::all().user("ada")).router()
}

#[test_support::test]
async fn a_plan_of_the_last_day_reads_no_older_jobs(database: Database) {
    let (client, router) = (&database.client, impatient(&database).await);
    let now = client.database_time().await.unwrap();
    let days_ago = JobId::first_at(now - Duration::from_secs(3 * 86_400));
    client.insert(NewJob::new("mail", &json!({})).id(days_ago)).await.unwrap();
    let young = insert(client).await;
    slow_down(&database, "1 day", 60.0).await;
    let plan = post(&router, "/bulk", "verb=cancel&whole=yes&kind=mail").await;
    let page = get(&router, plan.header("location")).await.body;
    assert!(page.contains("Cancel 1 job"), "{page}");
    let page = run(&router, plan.header("location"), "").await;
    assert!(page.contains("Done.") && page.contains(">1</b> of 1"), "{page}");
    assert_eq!(job(client, young).await.state, JobState::Cancelled);
}

#[test_support::test]
async fn a_plan_whose_jobs_take_long_to_count_is_confirmed_by_typing_and_has_time_to_run(database: Database) {
    let (client, router) = (&database.client, impatient(&database).await);
    let now = client.database_time().await.unwrap();
    for day in 2..5 {
        let id = JobId::first_at(now - Duration::from_secs(day * 86_400));
        client.insert(NewJob::new("mail", &json!({})).id(id)).await.unwrap();
    }
    // Three of them take longer than a look-up may, and one longer than a statement of the pool.
    slow_down(&database, "1 day", 0.8).await;
    let plan = post(&router, "/bulk", "verb=cancel&whole=yes&kind=mail&since=all").await;
    assert_eq!(plan.status, StatusCode::SEE_OTHER, "{}", plan.body);
    let plan = plan.header("location").to_owned();
    let page = get(&router, &plan).await.body;
    assert!(page.contains("count is not known") && page.contains("could not be read"), "{page}");
    assert!(page.contains("<code>cancel all</code>") && page.contains("Cancel all jobs"), "{page}");
    assert_eq!(post(&router, &format!("{plan}/run"), "").await.status, StatusCode::BAD_REQUEST);
    let page = run(&router, &plan, "cancel+all").await;
    assert!(page.contains("Done.") && page.contains(">3</b>"), "{page}");
}

#[tokio::test]
async fn a_plan_shows_ten_of_its_jobs_and_its_cut_off_and_more_than_a_thousand_are_confirmed_by_typing() {
    let database = Database::new().await;
    let (client, router) = (&database.client, dashboard(&database));
    let insert = async |kind: &str, many: usize| {
        client.insert_many((0..many).map(|n| NewJob::new(kind, &json!(n)))).await.unwrap();
    };
    insert("eleven", 11).await;
    insert("few", 1_000).await;
    insert("many", 1_001).await;
    let plan = async |kind: &str| {
        let plan = post(&router, "/bulk", &format!("verb=cancel&whole=yes&kind={kind}")).await;
        let path = plan.header("location").to_owned();
        let page = get(&router, &path).await.body;
        (path, page)
    };
    let before = client.database_time().await.unwrap();
    let (_, page) = plan("eleven").await;
    let after = client.database_time().await.unwrap();
    assert!(page.contains("Cancel 11 jobs") && page.contains("The last 10 of them"), "{page}");
    assert_eq!(page.matches("<tr id=\"job-").count(), 10, "{page}");
    let cut_off = page.split("jobs inserted before <time datetime=\"").nth(1).unwrap().split('"').next().unwrap();
    let cut_off = OffsetDateTime::parse(cut_off, &Rfc3339).unwrap();
    // Pages tell times in milliseconds.
    assert!(before - Duration::from_millis(1) <= cut_off && cut_off <= after, "{before} {cut_off} {after}");
    assert!(page.contains("later ones are not meant"), "{page}");
    let (path, page) = plan("few").await;
    assert!(!page.contains("to confirm"), "{page}");
    run(&router, &path, "").await;
    let (path, page) = plan("many").await;
    assert!(page.contains("<code>cancel 1001</code>") && page.contains("Cancel 1,001 jobs"), "{page}");
    for wrong in ["", "confirm=", "confirm=cancel", "confirm=cancel+1000"] {
        assert_eq!(post(&router, &format!("{path}/run"), wrong).await.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    let cancelled = JobFilter::new().kind("many").states(JobState::Cancelled);
    assert_eq!(client.count_jobs(cancelled.clone(), 10).await.unwrap().counted(), 0);
    let page = run(&router, &path, "cancel+1001").await;
    assert!(page.contains("Done.") && page.contains(">1,001</b> of 1,001"), "{page}");
    assert_eq!(client.count_jobs(cancelled, 5_000).await.unwrap().counted(), 1_001);
}

#[test_support::test]
async fn a_running_plan_is_stopped(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    let id = insert(client).await;
    let plan = post(&router, "/bulk", "verb=cancel&whole=yes&kind=mail").await.header("location").to_owned();
    // Another transaction has the job, so the plan waits.
    let other = database.begin("SELECT FROM {schema}.job FOR UPDATE").await;
    post(&router, &format!("{plan}/run"), "").await;
    let page = get(&router, &plan).await;
    assert!(page.body.contains("Running.") && page.body.contains("Stop"), "{}", page.body);
    assert_eq!(page.header("refresh"), "1", "the page is read again without a script");
    assert_eq!(post(&router, &format!("{plan}/stop"), "").await.header("location"), plan);
    let page = ended(&router, &plan).await;
    assert!(page.contains("Stopped."), "{page}");
    other.rollback().await.unwrap();
    // The connection of the statement that was stopped is used again.
    assert_eq!(job(client, id).await.state, JobState::Available);
    assert!(get(&router, &plan).await.body.contains("Stopped."));
    post(&router, &format!("{plan}/run"), "").await;
    assert!(get(&router, &plan).await.body.contains("Stopped."), "a plan runs once");
}

#[test_support::test]
async fn a_deletion_is_confirmed_by_typing_and_needs_its_right(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    let id = insert(client).await;
    let plan = post(&router, "/bulk", &format!("verb=delete&id={id}")).await.header("location").to_owned();
    let answer = post(&router, &format!("{plan}/run"), "confirm=yes").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(client.job(id).await.unwrap().is_some());

    // Another user does not see the plan, and a user without the right cannot make one.
    let other = Web::new(client.clone()).access(|_| Access::rights([Right::Change]).user("eve")).router();
    assert_eq!(get(&other, &plan).await.status, StatusCode::NOT_FOUND);
    let answer = post(&other, "/bulk", &format!("verb=delete&id={id}")).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);

    run(&router, &plan, "delete+1").await;
    assert!(client.job(id).await.unwrap().is_none());
}

#[test_support::test]
async fn a_plan_names_the_refused_jobs(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    let policy = || UniquePolicy::new().key("k").states(UniqueScope::Active).on_reentry(OnReentry::Discard);
    let first = client.insert(NewJob::new("mail", &json!({})).unique(policy())).await.unwrap().id();
    client.cancel(first).await.unwrap();
    let holder = client.insert(NewJob::new("mail", &json!({})).unique(policy())).await.unwrap().id();
    let plan = post(&router, "/bulk", "verb=retry&whole=yes&state=cancelled").await;
    let page = run(&router, plan.header("location"), "").await;
    assert!(page.contains("Refused jobs"), "{page}");
    assert!(page.contains(&format!("/jobs/{holder}")), "{page}");
}

#[test_support::test]
async fn a_plan_leaves_out_the_ticked_jobs_and_the_way_back_keeps_the_filter(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    let ids = [insert(client).await, insert(client).await, insert(client).await];
    client.discard(ids).await.unwrap();
    let body = format!("verb=retry&whole=but&id={}&kind=mail&state=discarded&by=failure&since=1h", ids[1]);
    let plan = post(&router, "/bulk", &body).await.header("location").to_owned();
    let page = get(&router, &plan).await.body;
    assert!(page.contains("<b class=\"number\">2</b> jobs will be <b>retried</b>."), "{page}");
    assert!(page.contains(&format!("--failed-after 1h --except {}", ids[1])), "{page}");
    let back = "href=\"/jobs?state=discarded&amp;kind=mail&amp;by=failure&amp;since=1h";
    assert!(page.contains(back), "{page}");
    assert!(run(&router, &plan, "").await.contains(back));
    let states = [JobState::Available, JobState::Discarded, JobState::Available];
    for (id, state) in ids.into_iter().zip(states) {
        assert_eq!(job(client, id).await.state, state);
    }
    // A retry without states means the failed jobs.
    let plan = post(&router, "/bulk", "verb=retry&whole=yes&kind=mail").await.header("location").to_owned();
    assert!(get(&router, &plan).await.body.contains("<b class=\"number\">1</b> job will be <b>retried</b>."));
    let refused = post(&router, "/bulk", "verb=release&whole=yes&state=running").await;
    assert!(refused.body.contains("Only pending jobs can be released."), "{}", refused.body);
    let plan = post(&router, "/bulk", &format!("verb=discard&id={}", ids[0])).await.header("location").to_owned();
    run(&router, &plan, "").await;
    assert_eq!(job(client, ids[0]).await.errors.last().unwrap().code.as_deref(), Some("by_operator"));
}
