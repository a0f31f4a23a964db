//! Policies that say nothing, contradict themselves or could never work.
use serde::{Deserialize, Serialize};
use uniqueue::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique())]
struct Nothing;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(scope = "queued", period = "PT1H"))]
struct NoKey;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(exclude_kind, window = "PT1H"))]
struct OneKeyForAll;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(kind, args, exclude_kind))]
struct WithAndWithoutKind;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, scope = "queued", states("available")))]
struct ScopeAndStates;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, states("running", "completed"), until = "start"))]
struct NeverClaims;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, states("completed", "cancelled", "discarded"), until = "start"))]
struct OnlyFinal;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, states("running"), on_conflict = "replace"))]
struct NeverReplaces;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(like = "faktory"))]
struct FaktoryForever;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(like = "faktory", period = "PT1H"))]
struct FaktoryPeriod;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(kind, like = "river", on_conflict = "reject"))]
struct RiverWithout;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", unique(args, scope = "queued", until = "success"))]
struct ScopeAndSuccess;

fn main() {}
