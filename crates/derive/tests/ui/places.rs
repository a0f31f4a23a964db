//! The value that decides the place of a job.

#[job(kind = "a", place = "unique_key")]
struct NoKey {}

#[job(kind = "a", unique(args, window = "1h"), place = "unique_key")]
struct Window {
    n: u64,
}

#[job(kind = "a", place = "group")]
struct NoGroup {}

#[job(kind = "a", place = "tenent")]
struct Misspelt {
    tenant: String,
}

#[job(kind = "a", place = "/customer/id")]
struct NoMember {
    order: u64,
}

#[job(kind = "a", place = "/a~2b")]
struct NoPointer {
    order: u64,
}

#[job(kind = "a", place)]
struct NoValue {}
