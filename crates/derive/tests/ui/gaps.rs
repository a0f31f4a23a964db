//! Sets of states that work, but not as most would expect: warnings.

#[job(kind = "a", unique(args, states("available", "running")))]
struct WithoutRetryable;

#[job(kind = "a", unique(args, states("available", "scheduled", "retryable", "completed")))]
struct WithoutRunning;

#[job(kind = "a", unique(args, states("scheduled", "running", "retryable")))]
struct WithoutAvailable;

#[job(kind = "a", unique(args, states("running", "completed")))]
struct NoneWaiting;

#[job(kind = "a", unique(args, states("available", "scheduled", "running"), until = "start"))]
struct DeadState;

#[job(kind = "a", unique(args, scope = "completed", until = "start"))]
struct DeadScope;

#[job(kind = "a", unique(args, scope = "completed", window = "7d"))]
struct LongWindow;

#[job(kind = "a", unique(args, like = "river", window = "25h"))]
struct LongWindowOfRiver;

#[job(kind = "a", unique(args, states("available", "running"), gaps = "allowed"))]
struct Meant;

#[job(kind = "a", unique(args, scope = "completed", window = "7d", gaps = "allowed"))]
struct KeptLonger;

// These end while their job is kept, or are kept until they end.
#[job(kind = "a", unique(args, scope = "completed", window = "1d"))]
struct AsLongAsKept;

#[job(kind = "a", unique(args, scope = "completed", period = "7d"))]
struct KeptUntilItEnds;

#[job(kind = "a", unique(args, window = "7d"))]
struct NotCompleted;
