//! Changes of one job.

use axum::http::StatusCode;
use test_support::prelude::*;

use super::{dashboard, insert, job, post};
use crate::support::get;

#[test_support::test]
async fn a_job_is_changed_by_its_form(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    let id = insert(client).await;
    for (body, state) in [
        ("verb=reschedule&minutes=60", JobState::Scheduled),
        ("verb=retry", JobState::Available),
        ("verb=priority&priority=-7", JobState::Available),
        ("verb=cancel", JobState::Cancelled),
        ("verb=retry", JobState::Available),
    ] {
        let answer = post(&router, &format!("/jobs/{id}/change"), body).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{body}: {}", answer.body);
        assert_eq!(job(client, id).await.state, state, "{body}");
    }
    assert_eq!(job(client, id).await.priority, -7);
    let log = get(&router, "/changes").await.body;
    assert!(log.contains("set_priority") && log.contains("ada"), "{log}");
    assert_eq!(post(&router, &format!("/jobs/{id}/change"), "verb=explode").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(post(&router, &format!("/jobs/{id}/delete"), "").await.header("location"), "/jobs");
    assert!(client.job(id).await.unwrap().is_none());
    assert_eq!(get(&router, &format!("/jobs/{id}")).await.status, StatusCode::NOT_FOUND);
}

#[test_support::test]
async fn a_refused_retry_says_so_and_the_page_names_the_holder(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    let policy = || UniquePolicy::new().key("k").states(UniqueScope::Active).on_reentry(OnReentry::Discard);
    let first = client.insert(NewJob::new("mail", &json!({})).unique(policy())).await.unwrap().id();
    client.cancel(first).await.unwrap();
    let holder = client.insert(NewJob::new("mail", &json!({})).unique(policy())).await.unwrap().id();
    let answer = post(&router, &format!("/jobs/{first}/change"), "verb=retry").await;
    assert_eq!(answer.header("location"), format!("/jobs/{first}?did=refused"));
    let page = get(&router, answer.header("location")).await;
    assert!(page.body.contains("Another job holds the key"), "{}", page.body);
    assert!(page.body.contains(&format!("/jobs/{holder}")), "{}", page.body);
    // This job does not hold the key, so its page must not release it.
    post(&router, &format!("/jobs/{first}/change"), "verb=release_claim").await;
    assert_eq!(client.holder("k").await.unwrap().unwrap().id, holder);
    let answer = post(&router, "/key/release", "key=k").await;
    assert_eq!(answer.header("location"), "/key?key=k&did=release");
    assert!(client.holder("k").await.unwrap().is_none());
}

#[test_support::test]
async fn before_a_retry_the_page_says_what_it_will_do_while_another_job_holds_the_key(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    let insert = async |key: &str, on_reentry: OnReentry| {
        // Waiting for a retry does not claim.
        let states = [JobState::Available, JobState::Running];
        let policy = UniquePolicy::new().key(key).states(states).on_reentry(on_reentry);
        client.insert(NewJob::new("mail", &json!({})).unique(policy)).await.unwrap().id()
    };
    let mut jobs = Vec::new();
    for (key, state, on_reentry, told, becomes) in [
        ("a", "cancelled", OnReentry::Discard, "A retry will be refused", JobState::Cancelled),
        ("b", "cancelled", OnReentry::GoOn, "A retry will go on without the claim", JobState::Available),
        ("c", "retryable", OnReentry::Discard, "A retry will discard this job", JobState::Discarded),
        ("d", "retryable", OnReentry::GoOn, "A retry will go on without the claim", JobState::Available),
    ] {
        let id = insert(key, on_reentry).await;
        let yielded = format!(
            "UPDATE {{schema}}.job SET state = '{state}', unique_yielded = true,
                 finalized_at = CASE WHEN '{state}' = 'cancelled' THEN now() END
             WHERE id = '{id}'"
        );
        database.execute(&yielded).await;
        jobs.push((id, told, becomes));
        assert_ne!(insert(key, on_reentry).await, id);
    }
    for (id, told, becomes) in jobs {
        let page = get(&router, &format!("/jobs/{id}")).await.body;
        assert!(page.contains(told), "{told}: {page}");
        post(&router, &format!("/jobs/{id}/change"), "verb=retry").await;
        assert_eq!(job(client, id).await.state, becomes, "{told}");
    }
    let free = insert("e", OnReentry::Discard).await;
    client.cancel(free).await.unwrap();
    assert!(!get(&router, &format!("/jobs/{free}")).await.body.contains("A retry will"));
}

#[test_support::test]
async fn the_page_of_a_job_says_what_a_retry_of_its_graph_does_and_does_it(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    let parent = NewJob::new("fetch", &json!({}));
    let child = NewJob::new("parse", &json!({})).after(&parent);
    let ids: Vec<_> = client.insert_many([parent, child]).await.unwrap().iter().map(|one| one.id()).collect();
    // The answers about a job are kept for a moment, so this asks about the other one.
    assert!(!get(&router, &format!("/jobs/{}", ids[0])).await.body.contains("Retry the graph"));
    client.cancel(ids.clone()).await.unwrap();
    let page = get(&router, &format!("/jobs/{}", ids[1])).await.body;
    assert!(page.contains("Jobs that are available again: 1. Jobs that wait for them: 1."), "{page}");
    let answer = post(&router, &format!("/jobs/{}/change", ids[1]), "verb=retry_graph").await;
    assert_eq!(answer.header("location"), format!("/jobs/{}?did=retry_graph", ids[1]));
    assert_eq!(
        (job(client, ids[0]).await.state, job(client, ids[1]).await.state),
        (JobState::Available, JobState::Pending)
    );
    let log = get(&router, "/changes").await.body;
    assert!(log.contains("retry_graph"), "{log}");
    // A retry of the child alone waits for the parent.
    client.cancel(ids[1]).await.unwrap();
    let answer = post(&router, &format!("/jobs/{}/change", ids[1]), "verb=retry").await;
    assert_eq!(answer.header("location"), format!("/jobs/{}?did=waits", ids[1]));
}
