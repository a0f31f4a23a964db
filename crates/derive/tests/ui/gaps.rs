//! Sets of states that work, but not as most would expect: warnings, here denied.
#![deny(deprecated)]
use serde::{Deserialize, Serialize};
use uniqueue::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, states("available", "running")))]
struct WithoutRetryable;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, states("available", "scheduled", "retryable", "completed")))]
struct WithoutRunning;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, states("scheduled", "running", "retryable")))]
struct WithoutAvailable;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, states("running", "completed")))]
struct NoneWaiting;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, states("available", "scheduled", "running"), until = "start"))]
struct DeadState;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, scope = "completed", until = "start"))]
struct DeadScope;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, scope = "completed", window = "7d"))]
struct LongWindow;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, like = "river", window = "25h"))]
struct LongWindowOfRiver;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, states("available", "running"), gaps = "allowed"))]
struct Meant;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, scope = "completed", window = "7d", gaps = "allowed"))]
struct KeptLonger;

// These end while their job is kept, or are kept until they end.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, scope = "completed", window = "1d"))]
struct AsLongAsKept;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, scope = "completed", period = "7d"))]
struct KeptUntilItEnds;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, window = "7d"))]
struct NotCompleted;

fn main() {}
