//! The policy, its dimensions and the canonical form.

use super::{email, insert, refused};
use crate::seeds::jobs;
use support::prelude::*;

#[support::test]
async fn a_job_with_a_policy_is_checked_before_it_is_inserted(database: Database) {
    let first = insert(&database, &email(json!({}))).await.unwrap();
    let error = insert(&database, &email(json!({}))).await.unwrap_err();
    assert_eq!(error.rejections()[0].holder, Some(first.id()));
    assert_eq!(jobs(&database).await, 1);
    let without = json!({"type": "email.send", "args": {}});
    assert!(!insert(&database, &without).await.unwrap().duplicate, "the policy is optional");
}

#[support::test]
async fn the_whole_policy_of_the_page_is_read(database: Database) {
    let whole = json!({
        "keys": ["type", "queue", "args"], "args_keys": ["user_id"], "meta_keys": [], "period": "PT1H",
        "states": ["available", "active", "scheduled", "retryable", "pending"], "on_conflict": "reject"
    });
    let policy = UniquePolicy::from_ojs(&whole).unwrap();
    assert_eq!(policy, UniquePolicy::ojs().by_queue().by_arg_fields(["user_id"]).period(HOUR));
    let first = insert(&database, &email(whole.clone())).await.unwrap().job;
    assert_eq!(first.unique_until.unwrap() - first.created_at, HOUR);
    assert_eq!(insert(&database, &email(whole)).await.unwrap_err().rejections()[0].holder, Some(first.id));
}

/// Every field has the default that the page's table gives.
#[test]
fn fields_left_out_have_the_defaults_of_the_table() {
    let spelled = json!({
        "keys": ["type"], "args_keys": null, "meta_keys": null, "period": null,
        "states": ["available", "active", "scheduled", "retryable", "pending"], "on_conflict": "reject"
    });
    let policy = UniquePolicy::from_ojs(&json!({})).unwrap();
    assert_eq!(policy, UniquePolicy::from_ojs(&spelled).unwrap());
    assert_eq!(policy, UniquePolicy::ojs());
    let written = policy.to_ojs().unwrap();
    assert_eq!((&written["keys"], &written["on_conflict"]), (&json!(["type"]), &json!("reject")));
    assert_eq!(UniquePolicy::from_ojs(&written).unwrap(), policy);
}

#[support::test]
async fn args_count_whole_or_by_the_chosen_members(database: Database) {
    let with_locale =
        |policy: Value, locale: &str| json!({"type": "a", "args": {"user_id": 42, "locale": locale}, "unique": policy});
    let whole = json!({"keys": ["type", "args"]});
    assert!(insert(&database, &with_locale(whole.clone(), "en-US")).await.is_ok());
    assert!(insert(&database, &with_locale(whole.clone(), "de-DE")).await.is_ok());
    assert!(insert(&database, &with_locale(whole, "de-DE")).await.is_err());
    // The page's example of selective args.
    let chosen = json!({ "keys": ["type", "args"], "args_keys": ["user_id"] });
    assert!(insert(&database, &with_locale(chosen.clone(), "en-US")).await.is_ok());
    assert!(insert(&database, &with_locale(chosen, "de-DE")).await.is_err());
}

#[support::test]
async fn an_invalid_policy_is_refused_at_enqueue_and_its_field_named(database: Database) {
    for (policy, field) in [
        (json!({"keys": ["type", "user"]}), "keys"),
        (json!({"keys": "type"}), "keys"),
        (json!({"keys": ["args"], "args_keys": []}), "args_keys"),
        (json!({"args_keys": ["user_id"]}), "args_keys"),
        (json!({"meta_keys": ["tenant_id"]}), "meta_keys"),
        // Metadata never counts as a whole.
        (json!({"keys": ["type", "meta"]}), "meta_keys"),
        (json!({"keys": ["type", "meta"], "meta_keys": []}), "meta_keys"),
        (json!({"keys": ["type", "meta"], "meta_keys": null}), "meta_keys"),
        (json!({"period": "1 hour"}), "period"),
        (json!({"period": "P1X"}), "period"),
        (json!({"period": 3600}), "period"),
        (json!({"states": []}), "states"),
        (json!({"states": ["sleeping"]}), "states"),
        (json!({"on_conflict": "overwrite"}), "on_conflict"),
        (json!({"args_key": ["user_id"]}), "args_key"),
        (json!("reject"), "unique_policy"),
    ] {
        let error = refused(&database, &email(policy.clone())).await;
        assert!(error.contains(field), "{policy}: {error}");
    }
}

/// The type counts, named in `keys` or not, so that types with equal args stay apart.
#[support::test]
async fn the_type_is_in_the_key_whether_named_or_not(database: Database) {
    for keys in [json!(["type", "args"]), json!(["args"]), json!([])] {
        let of = |kind: &str| json!({"type": kind, "args": {"keys": keys}, "unique": {"keys": keys}});
        let (one, other) = (format!("one {keys}"), format!("other {keys}"));
        assert!(insert(&database, &of(&one)).await.is_ok());
        assert!(insert(&database, &of(&other)).await.is_ok());
        assert!(insert(&database, &of(&one)).await.is_err());
    }
}

/// A chosen member that the args do not have is refused; one that is null is there.
#[support::test]
async fn args_keys_that_the_args_do_not_have_are_refused(database: Database) {
    let policy = json!({"keys": ["type", "args"], "args_keys": ["user_id", "tenant"]});
    let error = refused(&database, &email(policy.clone())).await;
    assert!(error.contains("args_keys") && error.contains("\"tenant\""), "{error}");
    let with_null = json!({"type": "a", "args": {"user_id": 1, "tenant": null}, "unique": policy});
    assert!(insert(&database, &with_null).await.is_ok());
}

/// With the queue, each queue has its own; without it, one key spans all queues.
#[support::test]
async fn the_queue_keeps_equal_jobs_apart_only_when_it_is_named(database: Database) {
    let on = |queue: &str, keys: Value| json!({"type": "a", "queue": queue, "args": [keys], "unique": {"keys": keys}});
    for (keys, is_apart) in [(json!(["type", "args", "queue"]), true), (json!(["type", "args"]), false)] {
        assert!(insert(&database, &on("one", keys.clone())).await.is_ok());
        assert_eq!(insert(&database, &on("other", keys.clone())).await.is_ok(), is_apart, "{keys}");
        assert!(insert(&database, &on("one", keys)).await.is_err());
    }
}

/// Chosen metadata: one job for each tenant, whatever else travels along.
#[support::test]
async fn chosen_metadata_counts_and_the_rest_of_it_does_not(database: Database) {
    let warm = |tenant: &str, trace: u32| {
        json!({
            "type": "cache.warm", "args": {}, "meta": {"tenant_id": tenant, "trace_id": trace},
            "unique": {"keys": ["type", "meta"], "meta_keys": ["tenant_id"]}
        })
    };
    assert!(insert(&database, &warm("acme", 1)).await.is_ok());
    assert!(insert(&database, &warm("acme", 2)).await.is_err());
    assert!(insert(&database, &warm("other", 3)).await.is_ok());
}

/// The page's canonical form, literally, and its SHA-256.
#[support::test]
async fn the_canonical_form_of_the_page_and_its_hash(database: Database) {
    let policy = UniquePolicy::from_ojs(&json!({"keys": ["type", "queue", "args"], "args_keys": ["user_id"]})).unwrap();
    let args = json!({"user_id": 42, "template": "welcome"});
    let subject =
        Subject { kind: "email.send", queue: "notifications", args: &args, meta: &json!({}), window_at: None };
    assert_eq!(
        policy.canonical(&subject).unwrap().unwrap(),
        r#"{"args":{"user_id":42},"queue":"notifications","type":"email.send"}"#
    );
    let key = "71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f";
    assert_eq!(policy.resolve(&subject).unwrap().unwrap().key, key);
    let job = NewJob::new("email.send", &args).queue("notifications").unique(policy);
    assert_eq!(database.client.insert(job).await.unwrap().job.unique_key.as_deref(), Some(key));
}
