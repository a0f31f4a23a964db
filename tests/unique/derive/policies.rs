//! The policy of a type.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uniqueue::{Job, JobState, OnConflict, OnReentry, UniquePolicy, UniqueScope, Until};

use super::unique;

#[test]
fn unique_alone_is_unique_by_all_args() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique)]
    struct Short(u64);
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(args))]
    struct Long(u64);
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique)]
    #[serde(tag = "type")]
    enum Either {
        One { a: u8 },
        Other,
    }
    assert_eq!(Short::options(), unique(UniquePolicy::new().by_args()));
    assert_eq!(Long::options(), Short::options());
    assert_eq!(Either::options(), Short::options());
}

#[test]
fn every_dimension_reaches_the_policy() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(args, queue, meta("tenant_id", "/a/b~1c"), exclude_kind))]
    struct Whole;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(args("user_id", "/address/zip"), kind))]
    struct Part {
        user_id: u64,
        address: String,
    }
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(kind))]
    struct KindAlone;
    assert_eq!(
        Whole::options(),
        unique(UniquePolicy::new().by_args().by_meta(["tenant_id", "/a/b~1c"]).by_queue().exclude_kind())
    );
    assert_eq!(Part::options(), unique(UniquePolicy::new().by_arg_fields(["user_id", "/address/zip"])));
    assert_eq!(KindAlone::options(), unique(UniquePolicy::new()));
}

#[test]
fn every_scope_and_any_set_of_states_reaches_the_policy() {
    macro_rules! scope {
        ($($word:literal $scope:ident),*) => { $({
            #[derive(Serialize, Deserialize, Job)]
            #[job(kind = "a", unique(args, scope = $word))]
            struct Scoped;
            let policy = UniquePolicy::new().by_args().scope(UniqueScope::$scope);
            assert_eq!(Scoped::options(), unique(policy));
        })* };
    }
    scope!("queued" Queued, "active" Active, "completed" Completed, "exists" Exists);

    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a")]
    #[job(unique(
        args,
        states("scheduled", "running", "retryable", "pending", "discarded", "completed", "cancelled", "available"),
    ))]
    struct All;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(args, states("available", "running"), gaps = "allowed"))]
    struct Some;
    assert_eq!(
        All::options(),
        unique(UniquePolicy::new().by_args().states([
            JobState::Available,
            JobState::Cancelled,
            JobState::Completed,
            JobState::Discarded,
            JobState::Pending,
            JobState::Retryable,
            JobState::Running,
            JobState::Scheduled,
        ]))
    );
    assert_eq!(Some::options(), unique(UniquePolicy::new().by_args().states([JobState::Available, JobState::Running])));
}

#[test]
fn durations_and_what_duplicates_do_reach_the_policy() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(args, period = "P1DT2H3M4.5S", on_conflict = "reject"))]
    struct Period;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(args, ttl = "PT10M", until = "start", on_conflict = "replace"))]
    struct Ttl;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(args, window = "P1W", on_reentry = "discard"))]
    #[job(crate = "::uniqueue")]
    struct Window;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a")]
    #[job(unique(args, on_conflict = "replace_except_schedule", on_reentry = "go_on"))]
    struct Replace;

    let args = UniquePolicy::new().by_args();
    assert_eq!(
        Period::options(),
        unique(args.clone().period(Duration::from_millis(93_784_500)).on_conflict(OnConflict::Reject))
    );
    assert_eq!(
        Ttl::options(),
        unique(args.clone().ttl(Duration::from_secs(600)).until(Until::Start).on_conflict(OnConflict::Replace))
    );
    assert_eq!(
        Window::options(),
        unique(args.clone().window(Duration::from_secs(604_800)).on_reentry(OnReentry::Discard))
    );
    assert_eq!(
        Replace::options(),
        unique(args.on_conflict(OnConflict::ReplaceExceptSchedule).on_reentry(OnReentry::GoOn))
    );
}

#[test]
fn like_starts_from_that_queues_defaults() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(args, like = "river", window = "PT15M"))]
    struct River;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(args, like = "ojs", on_conflict = "ignore"))]
    struct Ojs;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(like = "faktory", ttl = "PT10M", until = "start"))]
    struct Faktory;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(like = "zizq"))]
    struct Zizq;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(queue, like = "zizq", until = "success"))]
    struct Narrowed {
        #[job(unique)]
        user_id: u64,
    }

    // A time limit or an end is an option like any other, so River's options are not empty.
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(kind, like = "river", ttl = "PT15M"))]
    struct RiverTtl;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(kind, like = "river", period = "PT15M"))]
    struct RiverPeriod;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(kind, like = "river", until = "start"))]
    struct RiverStart;

    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    assert_eq!(River::options(), unique(UniquePolicy::river().by_args().window(minutes(15))));
    assert_eq!(RiverTtl::options(), unique(UniquePolicy::river().ttl(minutes(15))));
    assert_eq!(RiverPeriod::options(), unique(UniquePolicy::river().period(minutes(15))));
    assert_eq!(RiverStart::options(), unique(UniquePolicy::river().until(Until::Start)));
    assert_eq!(Ojs::options(), unique(UniquePolicy::ojs().by_args().on_conflict(OnConflict::Ignore)));
    assert_eq!(Faktory::options(), unique(UniquePolicy::faktory(minutes(10)).until(Until::Start)));
    assert_eq!(Zizq::options(), unique(UniquePolicy::zizq()));
    assert_eq!(
        Narrowed::options(),
        unique(UniquePolicy::zizq().by_arg_fields(["user_id"]).by_queue().until(Until::Success))
    );
}
