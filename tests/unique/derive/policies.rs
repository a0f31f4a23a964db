//! The policy of a type.

use super::unique;
use support::prelude::*;

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
    #[job(kind = "a", unique(args("user_id", "/address/zip"), kind))]
    struct Part {
        user_id: u64,
        address: String,
    }
    let whole = UniquePolicy::new().by_args().by_meta(["tenant_id", "/a/b~1c"]).by_queue().exclude_kind();
    says!([unique(args, queue, meta("tenant_id", "/a/b~1c"), exclude_kind)] whole);
    assert_eq!(Part::options(), unique(UniquePolicy::new().by_arg_fields(["user_id", "/address/zip"])));
    says!([unique(kind)] UniquePolicy::new());
}

#[test]
fn every_scope_and_any_set_of_states_reaches_the_policy() {
    let args = || UniquePolicy::new().by_args();
    says!([unique(args, scope = "queued")] args().scope(UniqueScope::Queued));
    says!([unique(args, scope = "active")] args().scope(UniqueScope::Active));
    says!([unique(args, scope = "completed")] args().scope(UniqueScope::Completed));
    says!([unique(args, scope = "exists")] args().scope(UniqueScope::Exists));
    says!(
        [unique(
            args,
            states("scheduled", "running", "retryable", "pending", "discarded", "completed", "cancelled", "available"),
        )] args().states(JobState::ALL)
    );
    let some = args().states([JobState::Available, JobState::Running]);
    says!([unique(args, states("available", "running"), gaps = "allowed")] some);
}

#[test]
fn durations_and_what_duplicates_do_reach_the_policy() {
    let args = || UniquePolicy::new().by_args();
    let period = args().period(Duration::from_millis(93_784_500)).on_conflict(OnConflict::Reject);
    says!([unique(args, period = "P1DT2H3M4.5S", on_conflict = "reject")] period);
    let ttl = args().ttl(Duration::from_secs(600)).until(Until::Start).on_conflict(OnConflict::Replace);
    says!([unique(args, ttl = "PT10M", until = "start", on_conflict = "replace")] ttl);
    let window = args().window(Duration::from_secs(604_800)).on_reentry(OnReentry::Discard);
    says!([unique(args, window = "P1W", on_reentry = "discard"), crate = "::uniqueue"] window);
    let replace = args().on_conflict(OnConflict::ReplaceExceptSchedule).on_reentry(OnReentry::GoOn);
    says!([unique(args, on_conflict = "replace_except_schedule", on_reentry = "go_on")] replace);
}

#[test]
fn like_starts_from_that_queues_defaults() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(queue, like = "zizq", until = "success"))]
    struct Narrowed {
        #[job(unique)]
        user_id: u64,
    }

    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    says!([unique(args, like = "river", window = "PT15M")] UniquePolicy::river().by_args().window(minutes(15)));
    // A time limit or an end is an option like any other, so River's options are not empty.
    says!([unique(kind, like = "river", ttl = "PT15M")] UniquePolicy::river().ttl(minutes(15)));
    says!([unique(kind, like = "river", period = "PT15M")] UniquePolicy::river().period(minutes(15)));
    says!([unique(kind, like = "river", until = "start")] UniquePolicy::river().until(Until::Start));
    let ojs = UniquePolicy::ojs().by_args().on_conflict(OnConflict::Ignore);
    says!([unique(args, like = "ojs", on_conflict = "ignore")] ojs);
    let faktory = UniquePolicy::faktory(minutes(10)).until(Until::Start);
    says!([unique(like = "faktory", ttl = "PT10M", until = "start")] faktory);
    says!([unique(like = "zizq")] UniquePolicy::zizq());
    let narrowed = UniquePolicy::zizq().by_arg_fields(["user_id"]).by_queue().until(Until::Success);
    assert_eq!(Narrowed::options(), unique(narrowed));
}
