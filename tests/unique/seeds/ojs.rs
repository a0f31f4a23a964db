//! Open Job Spec: the page on its unique jobs.

use serde_json::{Value, json};
use time::macros::datetime;
use uniqueue::{
    Inserted, Job, JobState, NewJob, Outcome, Rejection, Result, Retention, Subject, UniquePolicy, UniqueScope,
    canonical_json, ojs_manifest,
};

use super::{DAY, HOUR, MINUTE, Stage, failure, jobs, prune, quick, race, until};
use support::Database;

/// Reads a job as an OJS client sends it, as a front door would.
fn enqueue(document: &Value) -> Result<NewJob> {
    let kind = document["type"].as_str().expect("a type");
    let mut job = NewJob::new(kind, &document["args"]);
    if let Some(queue) = document["queue"].as_str() {
        job = job.queue(queue);
    }
    for (name, value) in document["meta"].as_object().into_iter().flatten() {
        job = job.meta(name, value.clone());
    }
    match document.get("unique") {
        Some(policy) => Ok(job.unique(UniquePolicy::from_ojs(policy)?)),
        None => Ok(job),
    }
}

async fn insert(database: &Database, document: &Value) -> Result<Inserted> {
    database.client.insert(enqueue(document)?).await
}

/// OJS's name of a state.
fn ojs_state(state: JobState) -> &'static str {
    match state {
        JobState::Running => "active",
        other => other.as_str(),
    }
}

/// `email.send` for user 42 with a policy.
fn email(policy: Value) -> Value {
    json!({"type": "email.send", "args": {"user_id": 42, "locale": "en-US"}, "unique": policy})
}

/// The field that an error names.
async fn refused(database: &Database, document: &Value) -> String {
    let error = match enqueue(document) {
        Ok(job) => database.client.insert(job).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(!error.is_duplicate(), "{error}");
    assert_eq!(jobs(database).await, 0);
    error.to_string()
}

#[derive(serde::Deserialize, serde::Serialize, Job)]
#[job(kind = "email.send")]
struct EmailSend {
    user_id: u64,
    locale: String,
}

// The policy.

/// A job with a policy is checked against those in place before it is inserted.
#[tokio::test]
async fn a_job_with_a_policy_is_checked_before_it_is_inserted() {
    let database = Database::new().await;
    let first = insert(&database, &email(json!({}))).await.unwrap();
    let error = insert(&database, &email(json!({}))).await.unwrap_err();
    assert_eq!(error.rejections()[0].holder, first.id());
    assert_eq!(jobs(&database).await, 1);
    let without = json!({"type": "email.send", "args": {}});
    assert!(!insert(&database, &without).await.unwrap().duplicate, "the policy is optional");
}

/// The page's whole policy, every field of it.
#[tokio::test]
async fn the_whole_policy_of_the_page_is_read() {
    let database = Database::new().await;
    let whole = json!({
        "keys": ["type", "queue", "args"], "args_keys": ["user_id"], "meta_keys": [], "period": "PT1H",
        "states": ["available", "active", "scheduled", "retryable", "pending"], "on_conflict": "reject"
    });
    let policy = UniquePolicy::from_ojs(&whole).unwrap();
    assert_eq!(policy, UniquePolicy::ojs().by_queue().by_arg_fields(["user_id"]).period(HOUR));
    let first = insert(&database, &email(whole.clone())).await.unwrap().job;
    assert_eq!(first.unique_until.unwrap() - first.created_at, HOUR);
    assert_eq!(insert(&database, &email(whole)).await.unwrap_err().rejections()[0].holder, first.id);
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

/// Without `args_keys` all args count, with it only those.
#[tokio::test]
async fn args_count_whole_or_by_the_chosen_members() {
    let database = Database::new().await;
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

/// A policy that cannot be right is refused when the job is enqueued, and the field is named.
#[tokio::test]
async fn an_invalid_policy_is_refused_at_enqueue_and_its_field_named() {
    let database = Database::new().await;
    for (policy, field) in [
        (json!({"keys": ["type", "user"]}), "keys"),
        (json!({"keys": "type"}), "keys"),
        (json!({"keys": ["args"], "args_keys": []}), "args_keys"),
        (json!({"args_keys": ["user_id"]}), "args_keys"),
        (json!({"meta_keys": ["tenant_id"]}), "meta_keys"),
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
#[tokio::test]
async fn the_type_is_in_the_key_whether_named_or_not() {
    let database = Database::new().await;
    for keys in [json!(["type", "args"]), json!(["args"]), json!([])] {
        let of = |kind: &str| json!({"type": kind, "args": {"keys": keys}, "unique": {"keys": keys}});
        let (one, other) = (format!("one {keys}"), format!("other {keys}"));
        assert!(insert(&database, &of(&one)).await.is_ok());
        assert!(insert(&database, &of(&other)).await.is_ok());
        assert!(insert(&database, &of(&one)).await.is_err());
    }
}

/// Metadata never counts as a whole: without chosen members the request is refused.
#[tokio::test]
async fn meta_without_meta_keys_is_refused() {
    let database = Database::new().await;
    for policy in [
        json!({"keys": ["type", "meta"]}),
        json!({"keys": ["type", "meta"], "meta_keys": []}),
        json!({"keys": ["type", "meta"], "meta_keys": null}),
    ] {
        let error = refused(&database, &email(policy)).await;
        assert!(error.contains("meta_keys"), "{error}");
    }
}

/// A chosen member that the args do not have is refused; one that is null is there.
#[tokio::test]
async fn args_keys_that_the_args_do_not_have_are_refused() {
    let database = Database::new().await;
    let policy = json!({"keys": ["type", "args"], "args_keys": ["user_id", "tenant"]});
    let error = refused(&database, &email(policy.clone())).await;
    assert!(error.contains("args_keys") && error.contains("\"tenant\""), "{error}");
    let with_null = json!({"type": "a", "args": {"user_id": 1, "tenant": null}, "unique": policy});
    assert!(insert(&database, &with_null).await.is_ok());
}

// The dimensions.

/// With the queue, each queue has its own; without it, one key spans all queues.
#[tokio::test]
async fn the_queue_keeps_equal_jobs_apart_only_when_it_is_named() {
    let database = Database::new().await;
    let on = |queue: &str, keys: Value| json!({"type": "a", "queue": queue, "args": [keys], "unique": {"keys": keys}});
    for (keys, is_apart) in [(json!(["type", "args", "queue"]), true), (json!(["type", "args"]), false)] {
        assert!(insert(&database, &on("one", keys.clone())).await.is_ok());
        assert_eq!(insert(&database, &on("other", keys.clone())).await.is_ok(), is_apart, "{keys}");
        assert!(insert(&database, &on("one", keys)).await.is_err());
    }
}

/// Chosen metadata: one job for each tenant, whatever else travels along.
#[tokio::test]
async fn chosen_metadata_counts_and_the_rest_of_it_does_not() {
    let database = Database::new().await;
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

// The key.

/// The page's canonical form, literally, and its SHA-256.
#[tokio::test]
async fn the_canonical_form_of_the_page_and_its_hash() {
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
    let database = Database::new().await;
    let job = NewJob::new("email.send", &args).queue("notifications").unique(policy);
    assert_eq!(database.client.insert(job).await.unwrap().job.unique_key.as_deref(), Some(key));
}

/// Members are sorted at every level, without white space, strings in NFC.
#[test]
fn canonical_json_is_sorted_at_every_level_compact_and_in_nfc() {
    let value = json!({"b": [{"d": 1.0, "c": "e\u{301}"}], "a": {"z": null, "y": 1e3}});
    assert_eq!(canonical_json(&value).unwrap(), r#"{"a":{"y":1000,"z":null},"b":[{"c":"é","d":1}]}"#);
}

/// A key is 64 lowercase hexadecimal digits, and the same one every time.
#[test]
fn a_key_is_lowercase_hexadecimal_and_deterministic() {
    let key = |args: Value| super::claim(&UniquePolicy::ojs().by_args(), "k", "q", &args).unwrap().key;
    let one = key(json!({"a": 1, "b": 2}));
    assert!(one.len() == 64 && one.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)));
    assert_eq!(key(serde_json::from_str(r#"{"b": 2, "a": 1}"#).unwrap()), one);
}

/// Two jobs are duplicates exactly when their keys are the same.
#[tokio::test]
async fn two_jobs_with_one_key_are_duplicates() {
    let database = Database::new().await;
    let of = |args: &str| {
        let args: Value = serde_json::from_str(args).unwrap();
        json!({"type": "a", "args": args, "unique": {"keys": ["args"]}})
    };
    let first = insert(&database, &of(r#"{"name": "é", "n": 1}"#)).await.unwrap();
    for same in ["{\"n\": 1.0, \"name\": \"e\u{301}\"}", r#"{"name": "\u00e9", "n": 1e0}"#] {
        assert_eq!(insert(&database, &of(same)).await.unwrap_err().rejections()[0].holder, first.id());
    }
    assert!(insert(&database, &of(r#"{"name": "é", "n": "1"}"#)).await.is_ok());
}

// Conflicts.

/// Reject: an error, no job, and all that the 409 of the HTTP binding says.
#[tokio::test]
async fn reject_is_an_error_with_all_that_the_http_binding_answers() {
    let database = Database::new().await;
    let holder = insert(&database, &email(json!({"on_conflict": "reject"}))).await.unwrap();
    for (state, ojs) in [("available", "available"), ("running", "active"), ("retryable", "retryable")] {
        database.set_state(holder.id(), state).await;
        let error = insert(&database, &email(json!({}))).await.unwrap_err();
        assert!(error.is_duplicate());
        let [Rejection { holder: existing, holder_state, .. }] = error.rejections() else { panic!("{error}") };
        let body = json!({"error": {
            "code": if error.is_duplicate() { "duplicate" } else { "other" },
            "message": error.to_string(),
            "details": {"existing_job_id": existing, "existing_job_state": ojs_state(*holder_state)}
        }});
        assert_eq!(body["error"]["details"]["existing_job_id"], holder.id().to_string());
        assert_eq!(body["error"]["details"]["existing_job_state"], ojs);
        assert_eq!(body["error"]["code"], "duplicate");
    }
    assert_eq!(jobs(&database).await, 1);
}

/// A duplicate that is made visible costs no more than one that is not: nothing is written.
#[tokio::test]
async fn reject_writes_nothing_and_keeps_the_callers_transaction() {
    let database = Database::new().await;
    insert(&database, &email(json!({}))).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    let job = enqueue(&email(json!({}))).unwrap();
    assert!(database.client.insert(job).tx(&mut tx).await.unwrap_err().is_duplicate());
    let wrote: Option<String> =
        sqlx::query_scalar("SELECT pg_current_xact_id_if_assigned()::text").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(wrote, None);
    tx.commit().await.unwrap();
}

/// Replace: the old job is cancelled and stays as a record, the new one goes in.
#[tokio::test]
async fn replace_cancels_the_old_job_and_keeps_it_as_a_record() {
    let database = Database::new().await;
    let resize = |picture: &str| {
        json!({
            "type": "resize.avatar", "args": {"user_id": 42, "picture": picture},
            "unique": {"keys": ["type", "args"], "args_keys": ["user_id"], "on_conflict": "replace"}
        })
    };
    // The page's use case: whatever the picture, the latest wins.
    let old = insert(&database, &resize("old.png")).await.unwrap();
    let new = insert(&database, &resize("new.png")).await.unwrap();
    assert!(!new.duplicate);
    assert_eq!(new.replaced, Some(old.id()));
    let old = database.client.job(old.id()).await.unwrap().unwrap();
    assert_eq!((old.state, old.replaced_by), (JobState::Cancelled, Some(new.id())));
    assert!(old.finalized_at.unwrap() >= old.created_at);
    assert_eq!(new.job.args_as::<Value>().unwrap()["picture"], "new.png");
    assert_eq!(new.job.state, JobState::Available);
}

/// Replace never touches a job that runs, and rejects instead, though the spec asks it only of
/// best-effort implementations.
#[tokio::test]
async fn replace_does_not_replace_an_active_job_and_rejects_instead() {
    let database = Database::new().await;
    for on_conflict in ["replace", "replace_except_schedule"] {
        let document = json!({"type": on_conflict, "args": [], "unique": {"on_conflict": on_conflict}});
        let holder = insert(&database, &document).await.unwrap();
        database.set_state(holder.id(), "running").await;
        let error = insert(&database, &document).await.unwrap_err();
        assert_eq!(ojs_state(error.rejections()[0].holder_state), "active");
        let row = database.client.job(holder.id()).await.unwrap().unwrap();
        assert_eq!((row.state, row.replaced_by), (JobState::Running, None));
    }
}

/// Replace except schedule: new content, old time.
#[tokio::test]
async fn replace_except_schedule_keeps_the_original_time() {
    let database = Database::new().await;
    let due = datetime!(2126-02-12 09:00 UTC);
    let notify = |text: &str| {
        let policy = json!({"on_conflict": "replace_except_schedule"});
        enqueue(&json!({"type": "notify", "args": {"text": text}, "unique": policy})).unwrap()
    };
    let old = database.client.insert(notify("old")).scheduled_at(due).await.unwrap();
    let new = database.client.insert(notify("new")).scheduled_at(due + DAY).await.unwrap();
    assert_eq!((new.job.scheduled_at, new.job.state), (due, JobState::Scheduled));
    assert_eq!(new.replaced, Some(old.id()));
    // A newcomer that names no time keeps it too.
    let newest = database.client.insert(notify("newest")).await.unwrap();
    assert_eq!((newest.job.scheduled_at, newest.job.state), (due, JobState::Scheduled));
    assert_eq!(newest.job.args_as::<Value>().unwrap()["text"], "newest");
}

/// Where the original waits for no time, it is a plain replace: the newcomer's own time counts.
#[tokio::test]
async fn replace_except_schedule_of_a_job_without_a_schedule_is_a_replace() {
    let database = Database::new().await;
    let due = datetime!(2126-02-12 09:00 UTC);
    for (on_conflict, state) in [
        ("replace", "available"),
        ("replace_except_schedule", "available"),
        ("replace_except_schedule", "retryable"),
        ("replace_except_schedule", "pending"),
        ("replace_except_schedule", "completed"),
    ] {
        let policy = UniquePolicy::from_ojs(&json!({"on_conflict": on_conflict})).unwrap();
        let notify = || {
            let kind = format!("{on_conflict} {state}");
            NewJob::new(kind, &json!({})).unique(policy.clone().scope(UniqueScope::Completed))
        };
        let old = database.client.insert(notify()).await.unwrap();
        database.set_state(old.id(), state).await;
        let new = database.client.insert(notify()).scheduled_at(due).await.unwrap();
        assert_eq!(new.replaced, Some(old.id()));
        assert_eq!((new.job.scheduled_at, new.job.state), (due, JobState::Scheduled), "{on_conflict} {state}");
    }
}

/// Ignore: no error, the job in place, and the flag that makes it a 200 rather than a 201.
#[tokio::test]
async fn ignore_answers_with_the_job_in_place_and_the_flag() {
    let database = Database::new().await;
    let invoice = || {
        let policy = json!({"keys": ["type", "args"], "on_conflict": "ignore"});
        enqueue(&json!({"type": "invoice.generate", "args": {"invoice": 7}, "unique": policy})).unwrap()
    };
    // The page's use case: several services at once, the first one wins, the rest are no-ops.
    let answers = race(&database, 8, invoice).await;
    let status = |inserted: &Inserted| if inserted.duplicate { 200 } else { 201 };
    let mut statuses: Vec<_> = answers.iter().map(|answer| status(answer.as_ref().unwrap())).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 200, 201]);
    let inserted = database.client.insert(invoice()).await.unwrap();
    let row = &inserted.job;
    let body = json!({
        "job": {"id": row.id, "type": row.kind, "state": ojs_state(row.state)},
        "deduplicated": inserted.duplicate,
    });
    let id = answers[0].as_ref().unwrap().id().to_string();
    let expected = json!({
        "job": {"id": id, "type": "invoice.generate", "state": "available"}, "deduplicated": true
    });
    assert_eq!(body, expected);
    assert_eq!(jobs(&database).await, 1);
}

// The states.

/// Only jobs in a listed state count; by default all but the terminal ones.
#[tokio::test]
async fn only_jobs_in_a_listed_state_are_duplicates() {
    let database = Database::new().await;
    for (name, policy) in [
        ("default", json!({})),
        ("scheduled", json!({"states": ["scheduled"]})),
        (
            "with completed",
            json!({"states": ["available", "active", "scheduled", "retryable", "pending", "completed"]}),
        ),
    ] {
        for state in JobState::ALL {
            let document = json!({"type": format!("{name} {state}"), "args": [], "unique": policy});
            let holder = insert(&database, &document).await.unwrap();
            database.set_state(holder.id(), state.as_str()).await;
            let is_counted = match name {
                "default" => !matches!(state, JobState::Completed | JobState::Cancelled | JobState::Discarded),
                "scheduled" => state == JobState::Scheduled,
                _ => !matches!(state, JobState::Cancelled | JobState::Discarded),
            };
            assert_eq!(insert(&database, &document).await.is_err(), is_counted, "{name} {state}");
        }
    }
}

/// A finished job is finished work: enqueueing the next is normal.
#[tokio::test]
async fn a_new_job_after_completion_is_normal() {
    let database = Database::new().await;
    let runner = quick(&database).worker(|_: uniqueue::RunningJob<EmailSend>| async {}).start().await.unwrap();
    for _ in 0..3 {
        let job = insert(&database, &email(json!({}))).await.unwrap();
        until(&database, job.id(), JobState::Completed).await;
    }
    runner.stop().await.unwrap();
}

/// The page's welcome email: none within seven days, even after the first was sent, and whatever
/// retention says about completed jobs meanwhile.
#[tokio::test]
async fn completed_in_the_states_with_a_week_keeps_a_welcome_email_from_going_twice() {
    let database = Database::new().await;
    let policy = json!({
        "states": ["available", "active", "scheduled", "retryable", "pending", "completed"],
        "period": "P7D", "on_conflict": "ignore"
    });
    let first = insert(&database, &email(policy.clone())).await.unwrap();
    assert!(insert(&database, &email(policy.clone())).await.unwrap().duplicate);
    database.set_state(first.id(), "completed").await;
    database.execute("UPDATE {schema}.job SET finalized_at = now() - interval '6 days 23 hours'").await;
    database.pass(7 * DAY - HOUR).await;
    prune(&database, Retention::default()).await;
    let second = insert(&database, &email(policy.clone())).await.unwrap();
    assert!(second.duplicate);
    assert_eq!(second.id(), first.id());
    database.pass(HOUR).await;
    assert!(!insert(&database, &email(policy)).await.unwrap().duplicate);
    prune(&database, Retention::default()).await;
    assert!(database.client.job(first.id()).await.unwrap().is_none(), "its time is over, so it goes");
}

/// Narrowed to scheduled: a second schedule is refused while one waits, and a new job is welcome
/// while an identical one runs.
#[tokio::test]
async fn scheduled_alone_refuses_a_second_schedule_and_nothing_else() {
    let database = Database::new().await;
    let report = || {
        let policy = json!({"states": ["scheduled"]});
        database.client.insert(enqueue(&json!({"type": "report", "args": [], "unique": policy})).unwrap())
    };
    let first = report().scheduled_in(HOUR).await.unwrap();
    assert!(report().scheduled_in(2 * HOUR).await.unwrap_err().is_duplicate());
    database.set_state(first.id(), "running").await;
    assert!(report().scheduled_in(HOUR).await.is_ok());
}

// Time.

/// The period begins with the original's creation, and its end frees the key in every state.
#[tokio::test]
async fn after_the_period_a_new_job_is_permitted_whatever_the_state_of_the_first() {
    let database = Database::new().await;
    for state in JobState::ALL {
        let all = UniquePolicy::from_ojs(&json!({"period": "PT5M"})).unwrap().scope(UniqueScope::Exists);
        let of_state = || NewJob::new(state.as_str(), &json!({})).unique(all.clone());
        let first = database.client.insert(of_state()).scheduled_in(HOUR).await.unwrap();
        assert_eq!(first.job.unique_until.unwrap() - first.job.created_at, 5 * MINUTE, "the schedule plays no part");
        database.set_state(first.id(), state.as_str()).await;
        assert!(database.client.insert(of_state()).await.unwrap_err().is_duplicate());
        database.execute("UPDATE {schema}.job SET unique_until = now()").await;
        assert!(!database.client.insert(of_state()).await.unwrap().duplicate, "{state}");
    }
}

/// Without a period there is no end but the states.
#[tokio::test]
async fn without_a_period_only_the_states_end_the_claim() {
    let database = Database::new().await;
    for policy in [json!({}), json!({"period": null})] {
        let document = json!({"type": policy.to_string(), "args": [], "unique": policy});
        let first = insert(&database, &document).await.unwrap();
        database.pass(400 * DAY).await;
        assert!(insert(&database, &document).await.is_err());
        database.set_state(first.id(), "cancelled").await;
        assert!(insert(&database, &document).await.is_ok());
    }
}

/// Key, state and period must all hold: each one alone lets the new job in.
#[tokio::test]
async fn key_state_and_period_work_together_with_and() {
    let database = Database::new().await;
    let numbered = |number: u32| {
        let policy = json!({"keys": ["args"], "period": "PT1H"});
        json!({"type": "a", "args": [number], "unique": policy})
    };
    let (one, two) = (insert(&database, &numbered(1)).await.unwrap(), insert(&database, &numbered(2)).await.unwrap());
    assert!(insert(&database, &numbered(1)).await.is_err(), "all three hold");
    assert!(insert(&database, &numbered(3)).await.is_ok(), "another key");
    database.set_state(one.id(), "completed").await;
    assert!(insert(&database, &numbered(1)).await.is_ok(), "another state");
    database.execute(&format!("UPDATE {{schema}}.job SET unique_until = now() WHERE id = '{}'", two.id())).await;
    assert!(insert(&database, &numbered(2)).await.is_ok(), "another time");
}

/// The page's table of common periods.
#[test]
fn the_common_periods_of_the_table() {
    for (text, length) in [("PT5M", 5 * MINUTE), ("PT1H", HOUR), ("P1D", DAY), ("P7D", 7 * DAY)] {
        let policy = UniquePolicy::from_ojs(&json!({"period": text})).unwrap();
        assert_eq!(policy, UniquePolicy::ojs().period(length));
        assert_eq!(policy.to_ojs().unwrap()["period"], text);
    }
}

// Strength.

/// Strong: of many concurrent enqueues under reject, one succeeds and every other sees it.
#[tokio::test]
async fn strong_of_concurrent_enqueues_exactly_one_succeeds_and_the_others_see_it() {
    let database = Database::with_connections(16).await;
    for round in 0..10 {
        let document = json!({"type": format!("t{round}"), "args": {}, "unique": {}});
        let answers = race(&database, 16, || enqueue(&document).unwrap()).await;
        let winner = answers.iter().find_map(|answer| answer.as_ref().ok()).unwrap().id();
        for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            assert_eq!(error.rejections()[0].holder, winner);
        }
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    }
}

/// Strong: two jobs with one key never live side by side, not even for a moment, and not under
/// replace either.
#[tokio::test]
async fn strong_no_two_jobs_with_one_key_coexist() {
    let database = Database::with_connections(12).await;
    for on_conflict in ["ignore", "reject", "replace", "replace_except_schedule"] {
        let document = json!({"type": on_conflict, "args": {}, "unique": {"on_conflict": on_conflict}});
        race(&database, 12, || enqueue(&document).unwrap()).await;
    }
    let live = "SELECT count(*) FROM {schema}.job WHERE state = 'available'";
    assert_eq!(database.number(live).await, 4);
    // What holds it up is an index, which no program can pass by.
    let twin = database.sql(
        "INSERT INTO {schema}.job (id, kind, unique_key, unique_states)
         SELECT gen_random_uuid(), kind, unique_key, unique_states FROM {schema}.job WHERE claims LIMIT 1",
    );
    let error = sqlx::query(twin).execute(database.pool()).await.unwrap_err();
    assert_eq!(error.as_database_error().unwrap().code().unwrap(), "23505");
}

/// The declaration of the manifest.
#[test]
fn the_manifest_declares_strength_and_mechanism() {
    let manifest = ojs_manifest();
    let declared = &manifest["capabilities"]["unique_jobs"];
    assert_eq!(declared["strength"], "strong");
    assert!(declared["mechanism"].as_str().unwrap().contains("unique index"));
}

/// All strategies, dimensions, chosen members, periods and states in one document each.
#[test]
fn every_strategy_dimension_selection_period_and_state_is_supported() {
    for on_conflict in ["reject", "replace", "replace_except_schedule", "ignore"] {
        for state in ["available", "active", "scheduled", "retryable", "pending", "completed", "cancelled", "discarded"]
        {
            let document = json!({
                "keys": ["type", "queue", "args", "meta"], "args_keys": ["a"], "meta_keys": ["m"],
                "period": "PT1H", "states": [state], "on_conflict": on_conflict
            });
            let policy = UniquePolicy::from_ojs(&document).unwrap();
            assert_eq!(policy.to_ojs().unwrap(), document);
        }
    }
}

// Retries.

/// The page's flow, step by step, on a real runner.
#[tokio::test]
async fn the_flow_of_a_job_that_fails_until_it_is_discarded() {
    let database = Database::new().await;
    let policy = json!({"keys": ["type", "args"], "args_keys": ["user_id"]});
    let document = email(policy);
    let mut stage = Stage::of::<EmailSend>(&database).await;
    let first = database.client.insert(enqueue(&document).unwrap()).max_attempts(2).await.unwrap();
    stage.started().await;
    stage.end(failure());
    let row = until(&database, first.id(), JobState::Retryable).await;
    assert!(row.claims, "still claimed");
    assert_eq!(insert(&database, &document).await.unwrap_err().rejections()[0].holder_state, JobState::Retryable);
    database.pass(HOUR).await;
    stage.started().await;
    stage.end(failure());
    let row = until(&database, first.id(), JobState::Discarded).await;
    assert!(!row.claims, "released");
    assert!(!insert(&database, &document).await.unwrap().duplicate);
    stage.stop().await;
}

/// When a retry comes due nothing is checked again: it runs even if a twin came in meanwhile.
#[tokio::test]
async fn a_retry_that_comes_due_is_not_checked_again() {
    let database = Database::new().await;
    let document = email(json!({"states": ["available", "scheduled"]}));
    let mut stage = Stage::of::<EmailSend>(&database).await;
    let first = insert(&database, &document).await.unwrap();
    stage.started().await;
    stage.end(failure());
    until(&database, first.id(), JobState::Retryable).await;
    // A twin that waits until tomorrow holds the key.
    let twin = database.client.insert(enqueue(&document).unwrap()).scheduled_in(DAY).await.unwrap();
    assert!(!twin.duplicate);
    database.pass(HOUR).await;
    assert_eq!(stage.started().await, first.id());
    stage.end(Outcome::complete());
    until(&database, first.id(), JobState::Completed).await;
    assert!(database.client.job(twin.id()).await.unwrap().unwrap().claims);
    stage.stop().await;
}

// The practical examples.

/// One daily report at a time.
#[tokio::test]
async fn example_one_report_at_a_time() {
    let database = Database::new().await;
    let report = |date: &str| {
        json!({
            "type": "report.daily", "args": {"date": date},
            "unique": {"keys": ["type"], "on_conflict": "ignore"}
        })
    };
    let first = insert(&database, &report("2026-02-12")).await.unwrap();
    let second = insert(&database, &report("2026-02-13")).await.unwrap();
    assert!(second.duplicate, "another date, and still one at a time");
    assert_eq!(second.id(), first.id());
}

/// One welcome email a user, whatever the locale.
#[tokio::test]
async fn example_one_welcome_email_a_user() {
    let database = Database::new().await;
    let welcome = |user: u64, locale: &str| {
        json!({
            "type": "email.send_welcome", "args": {"user_id": user, "locale": locale},
            "unique": {"keys": ["type", "args"], "args_keys": ["user_id"], "on_conflict": "reject"}
        })
    };
    assert!(insert(&database, &welcome(42, "en-US")).await.is_ok());
    assert!(insert(&database, &welcome(42, "de-DE")).await.unwrap_err().is_duplicate());
    assert!(insert(&database, &welcome(43, "en-US")).await.is_ok());
}

/// At most one notification an hour. With the default states that is while the first is not over;
/// with `completed` among them it is the whole hour.
#[tokio::test]
async fn example_one_notification_an_hour() {
    let database = Database::new().await;
    let push = |event: &str| {
        json!({
            "type": "notification.push", "args": {"user_id": 42, "event": event},
            "unique": {
                "keys": ["type", "args"], "args_keys": ["user_id", "event"], "period": "PT1H", "on_conflict": "ignore"
            }
        })
    };
    assert!(!insert(&database, &push("new_comment")).await.unwrap().duplicate);
    assert!(!insert(&database, &push("new_follower")).await.unwrap().duplicate);
    database.pass(59 * MINUTE).await;
    assert!(insert(&database, &push("new_comment")).await.unwrap().duplicate);
    database.pass(MINUTE).await;
    let second = insert(&database, &push("new_comment")).await.unwrap();
    assert!(!second.duplicate);
    database.set_state(second.id(), "completed").await;
    assert!(!insert(&database, &push("new_comment")).await.unwrap().duplicate, "state and period, joined by and");
    let mut whole_hour = push("new_like");
    whole_hour["unique"]["states"] = json!(["available", "active", "scheduled", "retryable", "pending", "completed"]);
    let first = insert(&database, &whole_hour).await.unwrap();
    database.set_state(first.id(), "completed").await;
    assert!(insert(&database, &whole_hour).await.unwrap().duplicate);
}

/// One resize an image and queue, the latest wins.
#[tokio::test]
async fn example_one_resize_an_image_and_queue() {
    let database = Database::new().await;
    let resize = |queue: &str| {
        json!({
            "type": "image.resize", "queue": queue, "args": {"image_id": "img_abc123"},
            "unique": {"keys": ["type", "queue", "args"], "args_keys": ["image_id"], "on_conflict": "replace"}
        })
    };
    let first = insert(&database, &resize("thumbnails")).await.unwrap();
    assert_eq!(insert(&database, &resize("previews")).await.unwrap().replaced, None);
    assert_eq!(insert(&database, &resize("thumbnails")).await.unwrap().replaced, Some(first.id()));
}

/// One cache warm a tenant and resource.
#[tokio::test]
async fn example_one_cache_warm_a_tenant() {
    let database = Database::new().await;
    let warm = |tenant: &str, resource: &str| {
        json!({
            "type": "cache.warm", "args": {"resource": resource}, "meta": {"tenant_id": tenant},
            "unique": {"keys": ["type", "args", "meta"], "meta_keys": ["tenant_id"], "on_conflict": "ignore"}
        })
    };
    for (tenant, resource, is_duplicate) in [
        ("acme", "products", false),
        ("acme", "products", true),
        ("other", "products", false),
        ("acme", "orders", false),
    ] {
        assert_eq!(insert(&database, &warm(tenant, resource)).await.unwrap().duplicate, is_duplicate);
    }
}
