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
#[job(kind = "a", unique(args, states("available", "running"), gaps = "allowed"))]
struct Meant;

fn main() {}
