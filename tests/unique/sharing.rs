//! Concurrent single inserts share a statement. Their results and errors stay separate.

mod answers;
mod trouble;

use uniqueue::Result;

use support::prelude::*;

/// Inserts all at the same time, and answers in their order.
async fn at_once(client: &Client, jobs: Vec<NewJob>) -> Vec<Result<Inserted>> {
    let insert = |job| {
        let client = client.clone();
        async move { client.insert(job).await }
    };
    timeout(WAIT, together(jobs.into_iter().map(insert))).await.expect("every answer")
}

fn keyed(key: &str) -> NewJob {
    job("a").unique_key(UniqueKey::raw(key))
}
