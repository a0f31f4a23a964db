//! Marked fields.

use super::unique;
use support::prelude::*;

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
fn options_on_the_type_refine_marked_fields_of_which_those_that_serde_may_leave_out_may_be_missing() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "email.send", unique(queue, scope = "queued"))]
    #[serde(rename_all = "camelCase")]
    struct Refined {
        #[job(unique)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent_by: Option<u64>,
        #[job(unique)]
        user_id: Option<u64>,
        template: String,
    }
    let policy = UniquePolicy::new().by_arg_fields(["userId"]).optional_arg_fields(["sentBy"]);
    assert_eq!(Refined::options(), unique(policy.by_queue().scope(UniqueScope::Queued)));
}

#[support::test]
async fn a_marked_field_that_has_another_name_in_the_args_is_an_error_and_not_one_key_for_all(database: Database) {
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
    let page = include_str!("../../../crates/derive/src/job.md");
    let sources = [
        include_str!("../../../crates/derive/src/attributes.rs"),
        include_str!("../../../crates/derive/src/unique.rs"),
    ];
    let listed = sources.iter().flat_map(|source| {
        let list = source.split_once("const OPTIONS: [").unwrap().1;
        let list = list.split_once("] =").unwrap().1.split_once("];").unwrap().0;
        list.split('"').skip(1).step_by(2)
    });
    for option in listed.chain(uniqueue_policy::Policy::members_of_terms()) {
        let is_there = [" =", "(", "`"].iter().any(|end| page.contains(&format!("| `{option}{end}")));
        assert!(is_there, "no row of crates/derive/src/job.md begins with {option:?}");
    }
    macro_rules! words {
        ($($type:ty),*) => { [$(<$type>::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>()),*].concat() };
    }
    for word in words!(OnConflict, OnReentry, UniqueScope, Until, UpdateArgs, uniqueue_policy::Preset) {
        assert!(page.contains(&format!("\"{word}\"")), "crates/derive/src/job.md does not name {word:?}");
    }
}
