//! Cancelling a graph from its first jobs on.

use uniqueue::{Client, JobId};
use uniqueue_admin::Admin;

async fn cancel(client: &Client, first: JobId) -> uniqueue::Result<()> {
    let graph = Admin::new(client).descendants([first]).await?;
    client.cancel(graph).await?;
    Ok(())
}

use serde_json::json;
use uniqueue::NewJob;

use super::{first_of, states};
use support::Database;

#[tokio::test]
async fn the_first_job_and_all_jobs_after_it_are_cancelled_in_rust_and_in_sql() {
    for in_sql in [false, true] {
        let database = Database::new().await;
        let [other, a, b, c] = ["other", "a", "b", "c"].map(|kind| NewJob::new(kind, &json!({})));
        let b = b.after([&other, &a]);
        let c = c.after_final(&b);
        database.client.insert_many([other, a, b, c]).await.unwrap();
        let first = first_of(&database, "a").await;
        if in_sql {
            database.execute(&format!("SELECT FROM {{schema}}.cancel_graph(ARRAY['{first}'::uuid])")).await;
        } else {
            cancel(&database.client, first).await.unwrap();
        }
        assert_eq!(states(&database).await, "other available, a cancelled, b cancelled, c cancelled", "{in_sql}");
    }
}
