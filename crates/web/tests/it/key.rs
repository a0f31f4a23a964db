//! The page of a key.

use axum::Router;
use test_support::prelude::*;

use crate::support::get;

fn job(key: &str) -> NewJob {
    NewJob::new("mail", &json!({})).unique(UniquePolicy::new().key(key).states(UniqueScope::Active))
}

async fn insert(client: &Client, job: NewJob) -> JobId {
    client.insert(job).await.unwrap().id()
}

/// The words of the page on whether a job claims the key.
async fn claims(router: &Router, key: &str, id: JobId) -> String {
    let page = get(router, &format!("/key?key={key}")).await.body;
    let row = page.split(&format!("<tr id=\"job-{id}\">")).nth(1).unwrap_or_else(|| panic!("{id}: {page}"));
    row.split("<td class=\"l2 wrap\">").nth(1).unwrap().split("</td>").next().unwrap().to_owned()
}

#[test_support::test]
async fn each_job_of_a_key_says_why_it_claims_it_or_not(database: Database, client: &Client) {
    let cancelled = insert(client, job("a")).await;
    client.cancel(cancelled).await.unwrap();
    let released = insert(client, job("a")).await;
    client.release_claim("a").await.unwrap();
    let back = insert(client, job("a")).await;
    client.cancel(back).await.unwrap();
    let holder = insert(client, job("a")).await;
    client.retry(back).await.unwrap();
    let expired = insert(client, NewJob::new("mail", &json!({})).unique_key(UniqueKey::raw("b").ttl(WAIT))).await;
    database.execute(&format!("UPDATE {{schema}}.job SET unique_until = now() WHERE id = '{expired}'")).await;
    let router = uniqueue_web::router(client.clone());
    for (key, id, told) in [
        ("a", holder, "<b>yes</b>, it holds the key"),
        ("a", cancelled, "no, its policy does not claim in cancelled"),
        ("a", released, "no, it has given up its claim"),
        ("a", back, "no, another job held the key when it came back"),
        ("b", expired, "no, its claim expired"),
    ] {
        assert_eq!(claims(&router, key, id).await, told);
    }
}

#[test_support::test]
async fn a_key_tells_of_its_duplicates_and_of_the_inserts_that_wait_for_it(database: Database) {
    let client = &database.client;
    Admin::new(client).audit_duplicates("mail", None).await.unwrap();
    for _ in 0..4 {
        insert(client, job("a")).await;
    }
    // An insert that replaces the holder waits for a transaction that changes it.
    let replacing =
        || NewJob::new("mail", &json!({})).unique(UniquePolicy::new().key("b").on_conflict(OnConflict::Replace));
    let holder = insert(client, replacing()).await;
    let mut open = database.pool().begin().await.unwrap();
    client.set_priority(holder, 7).tx(&mut open).await.unwrap();
    let waits = tokio::spawn({
        let client = client.clone();
        async move { client.insert(replacing()).await.unwrap() }
    });
    eventually!(
        Admin::new(client).waiting_inserts().await.unwrap().iter().any(|one| one.unique_key.as_deref() == Some("b"))
    );
    let router = uniqueue_web::router(client.clone());
    let page = get(&router, "/key?key=a").await.body;
    assert!(page.contains("<b>3</b> suppressed of mail, the last "), "{page}");
    assert!(!page.contains("An insert (pid"), "{page}");
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *open).await.unwrap();
    let page = get(&router, "/key?key=b").await.body;
    assert!(
        page.contains("An insert (pid ") && page.contains(&format!("waits for a transaction of pid {pid}")),
        "{page}"
    );
    let page = get(&router, "/waiting").await.body;
    assert!(page.contains("<tr id=\"waiting-") && page.contains(&pid.to_string()), "{page}");
    assert!(page.contains("idle in transaction"), "{page}");
    open.commit().await.unwrap();
    let inserted = timeout(WAIT, waits).await.unwrap().unwrap();
    assert!(!inserted.duplicate && inserted.id() != holder);
}
