//! Concurrent single inserts share a statement. Their results and errors stay separate.

mod answers;
mod trouble;

use uniqueue::Result;

use support::prelude::*;

/// Inserts all at the same time, and answers in their order.
async fn at_once(client: &Client, jobs: Vec<NewJob>) -> Vec<Result<Inserted>> {
    let mut inserts = JoinSet::new();
    for (place, job) in jobs.into_iter().enumerate() {
        let client = client.clone();
        inserts.spawn(async move { (place, client.insert(job).await) });
    }
    let mut answers = timeout(WAIT, inserts.join_all()).await.expect("every answer");
    answers.sort_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn keyed(key: &str) -> NewJob {
    job("a").unique_key(UniqueKey::raw(key))
}
