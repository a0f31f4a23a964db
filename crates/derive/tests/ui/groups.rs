//! Groups that can never work.

#[job(kind = "a", limit = 3)]
struct WithoutGroup;

#[job(kind = "a", in_order)]
struct OrderWithoutGroup;

#[job(kind = "a", group, limit = 0)]
struct NoneMayRun;

#[job(kind = "a", group, limit = 2, in_order)]
struct TwoInOrder;

#[job(kind = "a", group(custmer))]
struct Misspelt {
    customer: u32,
}

#[job(kind = "a", group())]
struct Empty;

#[job(kind = "a", group = "")]
struct EmptyKey;

#[job(kind = "a", group = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")]
struct LongKey;

#[job(kind = "a", group("customer"))]
struct Quoted {
    customer: u32,
}

#[job(kind = "a", one_at_a_time)]
struct OneOfWhat;

#[job(kind = "a", unique(kind, window = "PT1M", on_conflict = "ignore"), limit = 2, one_at_a_time)]
struct OneInAWindow;
