//! Options that do not exist, stand in the wrong place or stand there twice.
use serde::{Deserialize, Serialize};
use uniqueue::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(knid = "a", kind = "a", timeout = "PT1S", scope = "queued")]
struct Unknown;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", queue = "b", kind = "c")]
#[job(queue = "d", unique(args, args), unique)]
struct Twice;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(arg, keys, priority = 1, args = true, queue = "q", meta = "tenant"))]
struct InUnique;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", "queue", queue: "b", unique(args) period, , priority = )]
struct Syntax;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a")]
struct OnFields {
    #[job(unique, unique)]
    twice: u64,
    #[job(unique(args))]
    with_options: u64,
    #[job(kind = "b")]
    unknown: u64,
    #[job]
    bare: u64,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind: "a", queue "b")]
struct NoEqualsSign;

fn main() {}
