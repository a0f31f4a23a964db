//! The grammar as a whole, without a single warning.
#![deny(deprecated, unused)]
#![deny(clippy::all)]
// This package's own, which an application need not have.
#![allow(missing_docs, unreachable_pub)]

use serde::{Deserialize, Serialize};
use uniqueue::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "email.send", queue = "emails", priority = 5, max_attempts = 3)]
#[job(unique(
    queue,
    meta("tenant_id"),
    states("available", "pending", "scheduled", "retryable", "running", "completed"),
    window = "PT1H",
    on_conflict = "reject",
    on_reentry = "discard",
    like = "river",
))]
pub struct SendEmail {
    #[job(unique)]
    pub user_id: u64,
    pub template: String,
}

/// Any other derive may stand beside it, in any order.
#[derive(Job, Clone, Debug, Deserialize, PartialEq, Serialize)]
#[job(kind = "import", unique)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum Import {
    File { path: String },
    Stdin,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "rebuild", unique(kind, scope = "queued"))]
pub struct Rebuild;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "reminder", unique(args, states("scheduled"), on_conflict = "replace_except_schedule"))]
pub struct Reminder(pub u64);

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "odd", unique(args, states("available", "running"), gaps = "allowed"))]
pub struct Odd {}

mod inner {
    pub use uniqueue as queue;
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "path", crate = "crate::inner::queue")]
pub struct Path {}

fn main() {
    assert_eq!(SendEmail::KIND, "email.send");
    let _ = (SendEmail::options(), Import::options(), Rebuild::options());
    let _ = (Reminder::options(), Odd::options(), Path::options());
}
