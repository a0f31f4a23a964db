//! A job without a kind gets one suggested, and using it is no error of its own.
use serde::{Deserialize, Serialize};
use uniqueue::Job;

#[derive(Serialize, Deserialize, Job)]
struct SendEmail {
    user_id: u64,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "checks")]
enum HTTPCheck {
    Get,
}

#[derive(Serialize, Deserialize, Job)]
#[job]
struct Bare;

#[derive(Serialize, Deserialize, Job)]
#[job = "assigned"]
struct Assigned;

fn is_job<J: Job>() {}

fn main() {
    is_job::<SendEmail>();
    is_job::<HTTPCheck>();
}
