//! The value that decides the place of a job.
use serde::{Deserialize, Serialize};
use uniqueue::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", place = "unique_key")]
struct NoKey {}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, window = "1h"), place = "unique_key")]
struct Window {
    n: u64,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", place = "group")]
struct NoGroup {}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", place = "tenent")]
struct Misspelt {
    tenant: String,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", place = "/customer/id")]
struct NoMember {
    order: u64,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", place = "/a~2b")]
struct NoPointer {
    order: u64,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", place)]
struct NoValue {}

fn main() {}
