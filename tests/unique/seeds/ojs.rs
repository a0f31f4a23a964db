//! Open Job Spec: the page on its unique jobs.

mod conflicts;
mod examples;
mod policy;
mod states;

use uniqueue::Result;

use super::jobs;
use support::prelude::*;

/// Reads a job as an OJS client sends it, as a front door would.
fn enqueue(document: &Value) -> Result<NewJob> {
    let kind = document["type"].as_str().expect("a type");
    let mut job = NewJob::new(kind, &document["args"]);
    if let Some(queue) = document["queue"].as_str() {
        job = job.queue(queue);
    }
    for (name, value) in document["meta"].as_object().into_iter().flatten() {
        job = job.meta(name, value.clone());
    }
    match document.get("unique") {
        Some(policy) => Ok(job.unique(UniquePolicy::from_ojs(policy)?)),
        None => Ok(job),
    }
}

async fn insert(database: &Database, document: &Value) -> Result<Inserted> {
    database.client.insert(enqueue(document)?).await
}

/// `email.send` for user 42 with a policy.
fn email(policy: Value) -> Value {
    json!({"type": "email.send", "args": {"user_id": 42, "locale": "en-US"}, "unique": policy})
}

/// The field that an error names.
async fn refused(database: &Database, document: &Value) -> String {
    let error = match enqueue(document) {
        Ok(job) => database.client.insert(job).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(!error.is_duplicate(), "{error}");
    assert_eq!(jobs(database).await, 0);
    error.to_string()
}
