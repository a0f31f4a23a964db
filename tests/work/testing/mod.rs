//! The testing kit.

mod assertions;
mod database;
mod draining;
mod given;
mod inline;
mod passing;

use support::prelude::*;

#[derive(Debug, Deserialize, Job, PartialEq, Serialize)]
#[job(kind = "task", max_attempts = 3)]
struct Task {
    n: u32,
}
