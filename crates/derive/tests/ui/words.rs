//! Words that no state, scope or choice has.

#[job(kind = "a", unique(args, scope = "Queued", until = "end", on_conflict = "raise"))]
struct Choices;

#[job(kind = "a", unique(args, on_reentry = "go on", like = "oban", gaps = "yes"))]
struct MoreChoices;

#[job(kind = "a", unique(args, states("availble", "active", "dead", "waiting", "running", "running")))]
struct States;

#[job(kind = "a", unique(args, states()))]
struct NoStates;

#[job(kind = "a", unique(args, states = "running"))]
struct OneState;

#[job(kind = "a", unique(args, states(running)))]
struct Unquoted;
