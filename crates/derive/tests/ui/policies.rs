//! Policies that say nothing, contradict themselves or could never work.

#[job(kind = "a", unique())]
struct Nothing;

#[job(kind = "a", unique(scope = "queued", period = "PT1H"))]
struct NoKey;

#[job(kind = "a", unique(exclude_kind, window = "PT1H"))]
struct OneKeyForAll;

#[job(kind = "a", unique(kind, args, exclude_kind))]
struct WithAndWithoutKind;

#[job(kind = "a", unique(args, scope = "queued", states("available")))]
struct ScopeAndStates;

#[job(kind = "a", unique(args, states("running", "completed"), until = "start"))]
struct NeverClaims;

#[job(kind = "a", unique(args, states("completed", "cancelled", "discarded"), until = "start"))]
struct OnlyFinal;

#[job(kind = "a", unique(args, states("running"), on_conflict = "replace"))]
struct NeverReplaces;

#[job(kind = "a", unique(like = "faktory"))]
struct FaktoryForever;

#[job(kind = "a", unique(like = "faktory", period = "PT1H"))]
struct FaktoryPeriod;

#[job(kind = "a", unique(kind, like = "river", on_conflict = "reject"))]
struct RiverWithout;

#[job(kind = "a", unique(args, scope = "queued", until = "success"))]
struct ScopeAndSuccess;
