//! Fields that cannot be selected from the args.

#[job(kind = "a", unique(args))]
struct Both {
    #[job(unique)]
    user_id: u64,
}

#[job(kind = "a", unique)]
struct BothInShort {
    #[job(unique)]
    user_id: u64,
}

#[job(kind = "a")]
struct Hidden {
    #[job(unique)]
    #[serde(skip)]
    skipped: u64,
    #[serde(default, skip_serializing)]
    #[job(unique)]
    unserialized: u64,
    #[job(unique)]
    #[serde(flatten)]
    inner: Inner,
}

#[job(kind = "a")]
#[serde(transparent)]
struct Transparent {
    #[job(unique)]
    user_id: u64,
}

#[job(kind = "a")]
struct Tuple(#[job(unique)] u64, u64);

#[job(kind = "a")]
enum Variants {
    #[job(unique)]
    One,
    Other {
        #[job(unique)]
        user_id: u64,
    },
}

#[job(kind = "a", unique(args("user_id", "/address/zip", "/a~2b", ""), meta("tenant", "tenant")))]
#[serde(rename_all = "camelCase")]
struct Selected {
    user_id: u64,
    #[serde(skip)]
    address: String,
}

#[job(kind = "a", unique(args("user_id"), meta()))]
struct NoMembers;

#[job(kind = "a", unique(args("template")))]
struct BothSelected {
    #[job(unique)]
    user_id: u64,
    template: String,
}
