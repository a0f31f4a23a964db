//! Updates that can never work.

#[job(kind = "a", unique(kind, debounce = "5s"))]
struct WithoutEnd;

#[job(kind = "a", unique(kind, max_delay = "1m", period = "59s"))]
struct LongerThanItsPeriod;

#[job(kind = "a", unique(kind, debounce = "60s", max_delay = "PT1M"))]
struct AsLong;

#[job(kind = "a", unique(kind, debounce = "P1M", max_delay = "5 s"))]
struct Malformed;

#[job(kind = "a", unique(args, update = "append"))]
struct AllArgs;

#[job(kind = "a", unique(kind, update = "merge", max_items = 5))]
struct Merged;

#[job(kind = "a", unique(kind, update = "append", max_items = 0))]
struct Empty;

#[job(kind = "a", unique(kind, update = "first", on_conflict = "ignore"))]
struct Contradiction;

#[job(kind = "a", unique(kind, on_conflict = "run_again"))]
struct Running;

#[job(kind = "a", unique(args("list"), update = "append"))]
struct NamedMember {
    list: Vec<u32>,
}

#[job(kind = "a", unique(args("/the list/0"), update = "append"))]
struct Pointer {
    #[serde(rename = "the list")]
    list: Option<std::collections::BTreeSet<u32>>,
}

#[job(kind = "a", unique(update = "append"))]
struct Marked {
    #[job(unique)]
    pair: (u32, u32),
    #[job(unique)]
    shop: u32,
    list: Vec<u32>,
}

#[job(kind = "a", unique(kind, max_delay = "1m", on_conflict = "ignore"))]
struct Ignored;

#[job(kind = "a", unique(like = "zizq", update = "append"))]
struct LikeZizq {
    list: Vec<u32>,
}
