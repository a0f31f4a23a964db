//! Updates that can never work.
use serde::{Deserialize, Serialize};
use uniqueue::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(kind, debounce = "PT5S"))]
struct WithoutEnd;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(kind, max_delay = "PT5S"))]
struct WithoutDelay;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(kind, debounce = "PT1M", max_delay = "PT1M"))]
struct AsLong;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(kind, debounce = "P1M", max_delay = "5 s"))]
struct Malformed;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, update = "append"))]
struct AllArgs;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(kind, update = "merge", max_items = 5))]
struct Merged;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(kind, update = "append", max_items = 0))]
struct Empty;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(kind, update = "first", on_conflict = "ignore"))]
struct Contradiction;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(kind, on_conflict = "run_again"))]
struct Running;

fn main() {}
