//! The options of a type.

use super::unique;
use support::prelude::*;

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
    says!([unique(args, ttl = "P1M")] UniquePolicy::new().by_args().ttl(Length::months(1)));
    let mixed = Length::months(14).plus(Duration::from_secs(3));
    says!([unique(args, period = "P1Y2MT3S")] UniquePolicy::new().by_args().period(mixed));
    says!([unique(like = "faktory", ttl = "P1Y")] UniquePolicy::faktory(Length::years(1)));
}

#[test]
fn updates_are_those_of_the_builder() {
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
    let again = UniquePolicy::new().scope(UniqueScope::Queued).on_conflict(OnConflict::RunAgain);
    says!([unique(kind, scope = "queued", on_conflict = "run_again")] again);
    says!([unique(args, on_conflict = "update")] UniquePolicy::new().by_args().on_conflict(OnConflict::Update));
    let collecting = UniquePolicy::new().update(Update::append().max_items(50));
    says!([unique(kind, update = "append", max_items = 50)] collecting);
    let of_shop = UniquePolicy::new().by_arg_fields(["shop", "tags"]).update(Update::append());
    assert_eq!(OfShop::options(), unique(of_shop));
    let (delay, longest) = (Duration::from_secs(5), Duration::from_secs(60));
    let debounced = UniquePolicy::new().update(Update::latest().debounce(delay, longest));
    says!([unique(kind, debounce = "5s", max_delay = "1m")] debounced);
    let pushed = UniquePolicy::new().update(Update::merge().push(longest));
    says!([unique(kind, update = "merge", max_delay = "1m")] pushed);
}

#[test]
fn short_lengths_are_those_of_the_builder() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    says!([unique(like = "faktory", ttl = "10m")] UniquePolicy::faktory(minutes(10)));
    says!([unique(args, window = "15m")] UniquePolicy::new().by_args().window(minutes(15)));
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
    const RECIPES: &str = include_str!("../../../docs/learn/unique.md");
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
