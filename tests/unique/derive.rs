//! `#[derive(Job)]` makes the same jobs as the builders.

/// Compares the options of a type with these attributes to a policy by the builder.
macro_rules! says {
    ([$($attribute:tt)*] $policy:expr) => {{
        #[derive(Serialize, Deserialize, Job)]
        #[job(kind = "a", $($attribute)*)]
        struct Case;
        assert_eq!(Case::options(), super::unique($policy), stringify!($($attribute)*));
    }};
}

mod fields;
mod options;
mod policies;

use support::prelude::*;

/// What the options of a job unique by that policy are.
fn unique(policy: UniquePolicy) -> InsertOptions {
    InsertOptions::new().unique(policy)
}
