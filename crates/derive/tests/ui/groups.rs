//! Groups that can never work.
use serde::{Deserialize, Serialize};
use uniqueue::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", limit = 3)]
struct WithoutGroup;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", in_order)]
struct OrderWithoutGroup;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", group, limit = 0)]
struct NoneMayRun;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", group, limit = 2, in_order)]
struct TwoInOrder;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", group(custmer))]
struct Misspelt {
    customer: u32,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", group())]
struct Empty;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", group = "")]
struct EmptyKey;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", group = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")]
struct LongKey;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", group("customer"))]
struct Quoted {
    customer: u32,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", one_at_a_time)]
struct OneOfWhat;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(kind, window = "PT1M", on_conflict = "ignore"), limit = 2, one_at_a_time)]
struct OneInAWindow;

fn main() {}
