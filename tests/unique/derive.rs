//! `#[derive(Job)]` makes the same jobs as the builders.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uniqueue::period::Length;
use uniqueue::{
    Error, InsertOptions, Job, JobState, OnConflict, OnReentry, UniquePolicy, UniqueScope, Until, Update, UpdateArgs,
};

use support::Database;

/// What the options of a job unique by that policy are.
fn unique(policy: UniquePolicy) -> InsertOptions {
    InsertOptions::new().unique(policy)
}

#[test]
fn kind_alone_leaves_the_options_to_the_client() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "plain")]
    struct Plain {
        user_id: u64,
    }
    assert_eq!(Plain::KIND, "plain");
    assert_eq!(Plain::options(), InsertOptions::new());
}

#[test]
fn insert_options_are_those_of_the_builder() {
    const LONGEST: &str = "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm";

    #[derive(Serialize, Deserialize, Job)]
    #[job(
        kind = "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"
    )]
    #[job(queue = "é / ñ", priority = -32_768)]
    #[job(max_attempts = 32_767)]
    struct Limits;

    assert_eq!(LONGEST.len(), 128);
    assert_eq!(Limits::KIND, LONGEST);
    assert_eq!(Limits::options(), InsertOptions::new().queue("é / ñ").priority(i16::MIN).max_attempts(32_767));
}

#[test]
fn calendar_lengths_are_those_of_the_builder() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(args, ttl = "P1M"))]
    struct Monthly;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(args, period = "P1Y2MT3S"))]
    struct Mixed;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(like = "faktory", ttl = "P1Y"))]
    struct Yearly;
    assert_eq!(Monthly::options(), unique(UniquePolicy::new().by_args().ttl(Length::months(1))));
    let mixed = Length::months(14).plus(Duration::from_secs(3));
    assert_eq!(Mixed::options(), unique(UniquePolicy::new().by_args().period(mixed)));
    assert_eq!(Yearly::options(), unique(UniquePolicy::faktory(Length::years(1))));
}

#[test]
fn updates_are_those_of_the_builder() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(args, on_conflict = "update"))]
    struct Plain;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(kind, update = "append", max_items = 50))]
    struct Collecting;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(kind, debounce = "5s", max_delay = "1m"))]
    struct Debounced;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(kind, update = "merge", max_delay = "1m"))]
    struct Pushed;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(update = "append"))]
    struct OfShop {
        #[job(unique)]
        shop: u64,
        #[job(unique)]
        #[serde(serialize_with = "joined")]
        tags: Vec<String>,
        products: Vec<u64>,
    }
    fn joined<S: serde::Serializer>(tags: &[String], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&tags.join(","))
    }
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(kind, scope = "queued", on_conflict = "run_again"))]
    struct Again;
    let again = UniquePolicy::new().scope(UniqueScope::Queued).on_conflict(OnConflict::RunAgain);
    assert_eq!(Again::options(), unique(again));
    assert_eq!(Plain::options(), unique(UniquePolicy::new().by_args().on_conflict(OnConflict::Update)));
    assert_eq!(Collecting::options(), unique(UniquePolicy::new().update(Update::append().max_items(50))));
    let of_shop = UniquePolicy::new().by_arg_fields(["shop", "tags"]).update(Update::append());
    assert_eq!(OfShop::options(), unique(of_shop));
    let (delay, longest) = (Duration::from_secs(5), Duration::from_secs(60));
    assert_eq!(Debounced::options(), unique(UniquePolicy::new().update(Update::latest().debounce(delay, longest))));
    assert_eq!(Pushed::options(), unique(UniquePolicy::new().update(Update::merge().push(longest))));
}

#[test]
fn short_lengths_and_iso8601_are_the_same() {
    macro_rules! same {
        ($($short:literal $iso8601:literal),*) => { $({
            #[derive(Serialize, Deserialize, Job)]
            #[job(kind = "a", unique(args, period = $short))]
            struct Short;
            #[derive(Serialize, Deserialize, Job)]
            #[job(kind = "a", unique(args, period = $iso8601))]
            struct Long;
            assert_eq!(Short::options(), Long::options(), $short);
        })* };
    }
    same!("90s" "PT90S", "1h30m" "PT1H30M", "7d" "P7D", "2w" "P2W", "500ms" "PT0.5S");
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(like = "faktory", ttl = "10m"))]
    struct Faktory;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(args, window = "15m"))]
    struct Window;
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    assert_eq!(Faktory::options(), unique(UniquePolicy::faktory(minutes(10))));
    assert_eq!(Window::options(), unique(UniquePolicy::new().by_args().window(minutes(15))));
}

#[test]
fn groups_are_those_of_the_builder() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", group(customer, r#in), limit = 3)]
    #[serde(rename_all = "camelCase")]
    struct OfFields {
        #[serde(rename = "customerId")]
        customer: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        r#in: Option<String>,
    }
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", group = "customer:1", in_order)]
    struct OfKey;
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", group, limit = 32_767)]
    struct OfKind;
    let of_fields = UniquePolicy::new().by_arg_fields(["customerId"]).optional_arg_fields(["in"]);
    assert_eq!(OfFields::options(), InsertOptions::new().group_by(of_fields).group_limit(3));
    assert_eq!(OfKey::options(), InsertOptions::new().group("customer:1").in_order());
    assert_eq!(OfKind::options(), InsertOptions::new().group_by(UniquePolicy::new()).group_limit(32_767));
}

#[test]
fn recipes_are_the_same_by_the_macro_and_by_the_builder() {
    const RECIPES: &str = include_str!("../../docs/learn/unique.md");
    let bare = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
    // rustfmt ends a list of several lines in a comma.
    let recipes = bare(RECIPES.split("## Recipes").nth(1).unwrap()).replace(",)", ")");
    macro_rules! recipe {
        ([$($attribute:tt)*] $($builder:tt)*) => {{
            #[derive(Serialize, Deserialize, Job)]
            #[job(kind = "a")]
            #[job($($attribute)*)]
            struct Recipe(serde_json::Value);
            assert_eq!(Recipe::options(), InsertOptions::new() $($builder)*);
            let attribute = bare(concat!("#[job(", stringify!($($attribute)*), ")]"));
            let builder = bare(stringify!($($builder)*));
            assert!(recipes.contains(&(attribute.clone() + &builder)), "{attribute}\n\n{builder}");
        }};
    }
    recipe!(
        [unique(kind, scope = "queued", on_conflict = "run_again")]
            .unique(UniquePolicy::new().scope(UniqueScope::Queued).on_conflict(OnConflict::RunAgain))
    );
    recipe!([unique(args("index")), one_at_a_time].one_at_a_time(UniquePolicy::new().by_arg_fields(["index"])));
    recipe!(
        [unique(args("user_id", "event"), scope = "completed", period = "1h")].unique(
            UniquePolicy::new()
                .by_arg_fields(["user_id", "event"])
                .scope(UniqueScope::Completed)
                .period(Duration::from_secs(3600))
        )
    );
    recipe!(
        [unique(args("account_id"), scope = "completed", window = "1d")].unique(
            UniquePolicy::new()
                .by_arg_fields(["account_id"])
                .scope(UniqueScope::Completed)
                .window(Duration::from_secs(86_400))
        )
    );
    recipe!([unique(args("user_id"), scope = "queued", on_conflict = "replace")].unique(
        UniquePolicy::new().by_arg_fields(["user_id"]).scope(UniqueScope::Queued).on_conflict(OnConflict::Replace)
    ));
    recipe!(
        [unique(args("thread_id"), scope = "queued", debounce = "5s", max_delay = "1m")].unique(
            UniquePolicy::new()
                .by_arg_fields(["thread_id"])
                .scope(UniqueScope::Queued)
                .update(Update::latest().debounce(Duration::from_secs(5), Duration::from_secs(60)))
        )
    );
    recipe!([unique(args("shop"), scope = "queued", update = "append", max_items = 500)].unique(
        UniquePolicy::new().by_arg_fields(["shop"]).scope(UniqueScope::Queued).update(Update::append().max_items(500))
    ));
}

#[test]
fn one_at_a_time_is_that_of_the_builder() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a", unique(args("index")), one_at_a_time)]
    struct Rebuild {
        index: String,
        why: String,
    }
    let policy = UniquePolicy::new().by_arg_fields(["index"]);
    assert_eq!(Rebuild::options(), InsertOptions::new().one_at_a_time(policy));
}

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

/// The names of all members of that JSON, as a policy selects them.
macro_rules! assert_selects_all_members {
    ($job:expr, [$($name:literal),*]) => {{
        fn options_of<J: Job>(_: &J) -> InsertOptions {
            J::options()
        }
        let job = $job;
        let json = serde_json::to_value(&job).unwrap();
        let mut members: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
        let mut names = vec![$($name),*];
        members.sort();
        names.sort();
        assert_eq!(members, names, "the names that serde gives");
        let policy = UniquePolicy::new().by_arg_fields([$($name),*]);
        assert_eq!(options_of(&job), unique(policy));
    }};
}

#[test]
fn marked_fields_are_selected_by_their_serde_names() {
    macro_rules! styled {
        ($($style:literal [$first:literal, $second:literal, $third:literal])*) => { $({
            #[derive(Default, Serialize, Deserialize, Job)]
            #[job(kind = "a")]
            #[serde(rename_all = $style)]
            #[expect(non_snake_case, reason = "odd names are the point")]
            struct Styled {
                #[job(unique)]
                user_id: u64,
                #[job(unique)]
                r#type: u64,
                #[job(unique)]
                _odd__name2: u64,
            }
            assert_selects_all_members!(Styled::default(), [$first, $second, $third]);
        })* };
    }
    styled! {
        "lowercase" ["user_id", "type", "_odd__name2"]
        "UPPERCASE" ["USER_ID", "TYPE", "_ODD__NAME2"]
        "PascalCase" ["UserId", "Type", "OddName2"]
        "camelCase" ["userId", "type", "oddName2"]
        "snake_case" ["user_id", "type", "_odd__name2"]
        "SCREAMING_SNAKE_CASE" ["USER_ID", "TYPE", "_ODD__NAME2"]
        "kebab-case" ["user-id", "type", "-odd--name2"]
        "SCREAMING-KEBAB-CASE" ["USER-ID", "TYPE", "-ODD--NAME2"]
    }
}

#[test]
fn marked_fields_follow_renames_for_serialization_only() {
    #[derive(Default, Serialize, Deserialize, Job)]
    #[job(kind = "a")]
    #[serde(rename_all(serialize = "camelCase", deserialize = "UPPERCASE"), deny_unknown_fields)]
    struct Renamed {
        #[job(unique)]
        user_id: u64,
        #[job(unique)]
        #[serde(default, rename = "e-mail")]
        email: String,
        #[serde(rename(serialize = "from", deserialize = "sender"), alias = "by")]
        #[job(unique)]
        sent_by: String,
        #[serde(rename(deserialize = "else"))]
        #[job(unique)]
        other_name: String,
    }
    assert_selects_all_members!(Renamed::default(), ["userId", "e-mail", "from", "otherName"]);
}

#[test]
fn a_marked_field_is_never_taken_for_a_json_pointer() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "a")]
    struct Slashed {
        #[job(unique)]
        #[serde(rename = "/a~b/c")]
        slashed: u64,
        #[job(unique)]
        #[serde(rename = "a.b/c*")]
        dotted: u64,
        #[job(unique)]
        #[serde(rename = "")]
        nameless: u64,
    }
    assert_eq!(Slashed::options(), unique(UniquePolicy::new().by_arg_fields(["/~1a~0b~1c", "a.b/c*", ""])));
}

#[test]
fn options_on_the_type_refine_marked_fields() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "email.send", unique(queue, scope = "queued"))]
    struct Refined {
        #[job(unique)]
        #[serde(skip_serializing_if = "Option::is_none")]
        user_id: Option<u64>,
        template: String,
    }
    assert_eq!(
        Refined::options(),
        unique(UniquePolicy::new().optional_arg_fields(["user_id"]).by_queue().scope(UniqueScope::Queued))
    );
}

#[test]
fn only_marked_fields_that_serde_may_leave_out_may_be_missing() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "email.send")]
    #[serde(rename_all = "camelCase")]
    struct Both {
        #[job(unique)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent_by: Option<u64>,
        #[job(unique)]
        user_id: Option<u64>,
    }
    assert_eq!(Both::options(), unique(UniquePolicy::new().by_arg_fields(["userId"]).optional_arg_fields(["sentBy"])));
}

#[tokio::test]
async fn a_marked_field_that_has_another_name_in_the_args_is_an_error_and_not_one_key_for_all() {
    #[derive(Deserialize, Job)]
    #[job(kind = "email.send")]
    struct ByHand {
        #[job(unique)]
        user_id: u64,
    }
    impl Serialize for ByHand {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map([("userId", self.user_id)])
        }
    }
    let database = Database::new().await;
    let error = database.client.insert(ByHand { user_id: 1 }).await.unwrap_err();
    assert!(matches!(error, Error::InvalidPolicy { .. }), "{error:?}");
    assert!(error.to_string().contains("\"user_id\""), "{error}");
}

#[test]
fn the_derive_works_through_another_macro() {
    macro_rules! job {
        ($name:ident, $kind:literal, $priority:literal, $period:literal) => {
            #[derive(Serialize, Deserialize, Job)]
            #[job(kind = $kind, priority = $priority, unique(args, period = $period))]
            struct $name;
        };
    }
    job!(Made, "made", -7, "PT1S");
    assert_eq!(Made::KIND, "made");
    assert_eq!(
        Made::options(),
        InsertOptions::new().priority(-7).unique(UniquePolicy::new().by_args().period(Duration::from_secs(1)))
    );
}

#[test]
fn every_option_and_word_is_on_the_page() {
    let page = include_str!("../../docs/reference/derive.md");
    let sources =
        [include_str!("../../crates/derive/src/attributes.rs"), include_str!("../../crates/derive/src/unique.rs")];
    for source in sources {
        let list = source.split_once("const OPTIONS: [&str; ").unwrap().1;
        let list = list.split_once("] =").unwrap().1.split_once("];").unwrap().0;
        for option in list.split('"').skip(1).step_by(2) {
            let is_there = [" =", "(", "`"].iter().any(|end| page.contains(&format!("| `{option}{end}")));
            assert!(is_there, "no row of docs/reference/derive.md begins with {option:?}");
        }
    }
    macro_rules! words {
        ($($type:ty),*) => { [$(<$type>::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>()),*].concat() };
    }
    for word in words!(OnConflict, OnReentry, UniqueScope, Until, UpdateArgs, uniqueue_policy::Preset) {
        assert!(page.contains(&format!("\"{word}\"")), "docs/reference/derive.md does not name {word:?}");
    }
}
