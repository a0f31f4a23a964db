//! The testing kit.

mod assertions;
mod database;
mod draining;
mod given;
mod inline;
mod passing;

use serde::{Deserialize, Serialize};
use uniqueue::Job;

#[derive(Debug, Deserialize, Job, PartialEq, Serialize)]
#[job(kind = "task", max_attempts = 3)]
struct Task {
    n: u32,
}
