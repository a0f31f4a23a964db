//! Resuming a failed graph.

use uniqueue::{Client, JobId};
use uniqueue_admin::Admin;

async fn resume(client: &Client, any: JobId) -> uniqueue::Result<()> {
    for (id, state) in Admin::new(client).retry_graph_plan(any).await? {
        println!("{id} becomes {state}");
    }
    client.retry_graph(any).await?;
    Ok(())
}

use serde_json::json;
use uniqueue::NewJob;

use super::{first_of, states, work};
use support::Database;

#[support::test]
async fn a_graph_goes_on_from_its_failed_step(database: Database) {
    let [a, b, c] = ["a", "b", "c"].map(|kind| NewJob::new(kind, &json!({})));
    let b = b.after(&a);
    let c = c.after(&b);
    database.client.insert_many([a, b, c]).await.unwrap();
    work(&database, &["a", "b", "c"], "b").await;
    assert_eq!(states(&database).await, "a completed, b discarded, c cancelled");
    resume(&database.client, first_of(&database, "c").await).await.unwrap();
    assert_eq!(states(&database).await, "a completed, b available, c pending");
    work(&database, &["a", "b", "c"], "none").await;
    assert_eq!(states(&database).await, "a completed, b completed, c completed");
}
