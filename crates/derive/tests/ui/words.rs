//! Words that no state, scope or choice has.
use serde::{Deserialize, Serialize};
use uniqueue::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, scope = "Queued", until = "end", on_conflict = "raise"))]
struct Choices;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, on_reentry = "go on", like = "oban", gaps = "yes"))]
struct MoreChoices;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, states("availble", "active", "dead", "waiting", "running", "running")))]
struct States;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, states()))]
struct NoStates;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, states = "running"))]
struct OneState;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, states(running)))]
struct Unquoted;

fn main() {}
