//! The properties that make two jobs the same.

use super::{ReconcileAccount, database_early_in, is_duplicate, reconcile};
use crate::seeds::claim;
use support::prelude::*;

/// Options of the type and options of the call both reach an insert, one in a transaction, and a
/// bulk one; the derive macro says the same as the trait.
#[tokio::test]
async fn unique_options_come_from_the_type_or_from_the_call_in_every_kind_of_insert() {
    #[derive(Deserialize, Job, Serialize)]
    #[job(kind = "reconcile_account", unique(args, window = "P1D", like = "river"))]
    struct Derived {
        account_id: u64,
    }
    assert_eq!(Derived::options(), ReconcileAccount::options());
    assert_eq!(Derived::KIND, ReconcileAccount::KIND);

    let database = database_early_in(DAY).await;
    let client = &database.client;
    let account = |account_id| ReconcileAccount { account_id };
    let policy = || UniquePolicy::river().by_args().window(DAY);
    let by_name = |account_id: u64| NewJob::new("reconcile_account", &json!({"account_id": account_id}));
    let first = client.insert(account(1)).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    let answers = [
        client.insert(Derived { account_id: 1 }).await.unwrap(),
        client.insert(account(1)).tx(&mut tx).await.unwrap(),
        client.insert_many([account(1)]).tx(&mut tx).await.unwrap().remove(0),
        client.insert(by_name(1)).unique(policy()).await.unwrap(),
        client.insert(by_name(1)).unique(policy()).tx(&mut tx).await.unwrap(),
        client.insert_many([by_name(1).unique(policy())]).await.unwrap().remove(0),
    ];
    tx.commit().await.unwrap();
    for answer in answers {
        assert!(answer.duplicate);
        assert_eq!(answer.id(), first.id());
    }
}

/// Each property more lets more jobs in.
#[test]
fn each_property_makes_a_job_more_specific() {
    let variants = [
        ("reconcile_account", "default", json!({"account_id": 1})),
        ("reconcile_account", "default", json!({"account_id": 2})),
        ("reconcile_account", "other", json!({"account_id": 1})),
        ("reconcile_account", "other", json!({"account_id": 2})),
    ];
    let distinct = |policy: UniquePolicy| {
        let keys = variants.iter().map(|(kind, queue, args)| claim(&policy, kind, queue, args).unwrap().key);
        keys.collect::<std::collections::BTreeSet<_>>().len()
    };
    let base = UniquePolicy::river().window(DAY);
    assert_eq!(distinct(base.clone()), 1);
    assert_eq!(distinct(base.clone().by_args()), 2);
    assert_eq!(distinct(base.clone().by_queue()), 2);
    assert_eq!(distinct(base.by_args().by_queue()), 4);
}

#[support::test]
async fn two_jobs_are_the_same_where_the_page_says_so(database: Database) {
    let river = UniquePolicy::river;
    let (daily, by_args) = (river().window(DAY), river().by_args());
    let both = daily.clone().by_args();
    let all = river().window(HOUR).by_args().by_queue().states(UniqueScope::Active);
    let account = |id: u64, policy: &UniquePolicy| reconcile(json!({"account_id": id}), policy.clone());
    let read = |args: &str| reconcile(serde_json::from_str(args).unwrap(), by_args.clone());
    let close = NewJob::new("close_account", &json!({"account_id": 1})).unique(by_args.clone());
    let by_queue = |queue: &str| reconcile(json!({}), river().by_queue()).queue(queue);
    let at = |due: OffsetDateTime| job("a").scheduled_at(due).unique(river().window(15 * MINUTE));
    let at_15_21 = at(datetime!(2126-02-12 15:21:00 UTC));
    for (sentence, first, second, expected) in [
        ("the kind always counts", account(1, &by_args), close, false),
        ("by period alone there is one of a kind a day", account(1, &daily), account(2, &daily), true),
        ("by args too, one of each set of args", account(1, &both), account(2, &both), false),
        ("by args too, one of each set of args", account(1, &both), account(1, &both), true),
        ("empty options enforce nothing", account(1, &river()), account(1, &river()), false),
        ("accounts 1 and 2 coexist", account(1, &by_args), account(2, &by_args), false),
        ("a second account 1 is skipped", account(1, &by_args), account(1, &by_args), true),
        // Here not at any level, where River sorts the first level only.
        (
            "the order of members makes no difference",
            read(r#"{"a": 1, "b": {"c": [{"d": 1, "e": 2}], "f": 3}}"#),
            read(r#"{"b": {"f": 3, "c": [{"e": 2, "d": 1}]}, "a": 1}"#),
            true,
        ),
        ("skipped in the same queue", by_queue("default"), by_queue("default"), true),
        ("allowed in another", by_queue("default"), by_queue("high_priority"), false),
        ("the period goes together with every other property", account(1, &all), account(1, &all), true),
        ("with the queue", account(1, &all), account(1, &all).queue("other"), false),
        ("with the args", account(1, &all), account(2, &all), false),
        ("of another hour", account(1, &all), account(1, &all).scheduled_at(datetime!(2126-02-12 16:00 UTC)), false),
        ("15:21 and 15:28 are one", at_15_21.clone(), at(datetime!(2126-02-12 15:28:00 UTC)), true),
        ("15:31 is the next", at_15_21.clone(), at(datetime!(2126-02-12 15:31:00 UTC)), false),
        ("from 15:15", at_15_21.clone(), at(datetime!(2126-02-12 15:15:00 UTC)), true),
        ("to 15:30", at_15_21.clone(), at(datetime!(2126-02-12 15:29:59.999 UTC)), true),
        ("which is the next", at_15_21.clone(), at(datetime!(2126-02-12 15:30:00 UTC)), false),
        ("and not before", at_15_21, at(datetime!(2126-02-12 15:14:59 UTC)), false),
    ] {
        assert_eq!(is_duplicate(&database, first, second).await, expected, "{sentence}");
    }
}

#[support::test]
async fn marked_fields_count_and_the_others_do_not(database: Database) {
    #[derive(Deserialize, Job, Serialize)]
    #[job(kind = "reconcile_account", unique(like = "river"))]
    struct ReconcileCustomer {
        #[job(unique)]
        customer_id: u64,
        trace_id: String,
    }
    let of = |customer_id, trace: &str| NewJob::from(ReconcileCustomer { customer_id, trace_id: trace.to_owned() });
    assert!(is_duplicate(&database, of(1, "a"), of(1, "b")).await);
    assert!(!is_duplicate(&database, of(1, "a"), of(2, "a")).await);
    let policy = UniquePolicy::river().by_arg_fields(["customer_id"]);
    assert_eq!(ReconcileCustomer::options(), InsertOptions::new().unique(policy));
}

/// A job without a time of its own falls into the window of the database's now.
#[support::test(self::database_early_in(15 * MINUTE))]
async fn by_period_takes_the_time_of_the_insert(database: Database) {
    let policy = UniquePolicy::river().window(15 * MINUTE);
    let row = database.client.insert(job("a").unique(policy.clone())).await.unwrap().job;
    let (args, meta, window_at) = (&json!({}), &json!({}), Some(row.created_at));
    let subject = Subject { kind: "a", queue: "default", args, meta, window_at };
    assert_eq!(row.unique_key, policy.resolve(&subject).unwrap().map(|claim| claim.key));
    let second = row.created_at.unix_timestamp();
    let start = OffsetDateTime::from_unix_timestamp(second - second % 900).unwrap().format(&Rfc3339).unwrap();
    let canonical = format!(r#"{{"period":"{start}/PT900S","type":"a"}}"#);
    assert_eq!(policy.canonical(&subject).unwrap().unwrap(), canonical);
}
