//! Options that do not exist, stand in the wrong place or stand there twice.

#[job(knid = "a", kind = "a", timeout = "PT1S", scope = "queued")]
struct Unknown;

#[job(kind = "a", queue = "b", kind = "c")]
#[job(queue = "d", unique(args, args), unique)]
struct Twice;

#[job(kind = "a", unique(arg, keys, priority = 1, args = true, queue = "q", meta = "tenant"))]
struct InUnique;

#[job(kind = "a", "queue", queue: "b", unique(args) period, , priority = )]
struct Syntax;

#[job(kind = "a")]
struct OnFields {
    #[job(unique, unique)]
    twice: u64,
    #[job(unique(args))]
    with_options: u64,
    #[job(kind = "b")]
    unknown: u64,
    #[job]
    bare: u64,
}

#[job(kind: "a", queue "b")]
struct NoEqualsSign;
