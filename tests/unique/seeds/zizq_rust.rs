//! Zizq's Rust client: the page on its unique jobs, and what that of its Node client says alike of scopes.

use super::{Stage, failure, jobs, prune};
use support::prelude::*;

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "rebuild_index")]
struct RebuildIndex {}

#[derive(Deserialize, Serialize)]
struct SendWelcomeEmail {
    user_id: u64,
}

/// The page's own example of a key for every insert of a type.
impl Job for SendWelcomeEmail {
    const KIND: &'static str = "send_welcome_email";

    fn unique_key(&self) -> Option<UniqueKey> {
        Some(UniqueKey::tagged_hash_of(Self::KIND, self.user_id))
    }
}

fn rebuild() -> NewJob {
    NewJob::from(RebuildIndex {}).unique_key(UniqueKey::raw("rebuild_index"))
}

/// As the page has it, without braces.
#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "bare", unique(args, scope = "queued"))]
struct Bare;

/// A unit struct is a job type as any other: its args are `null`.
#[support::test]
async fn a_unit_struct_is_inserted_folded_and_worked(database: Database) {
    let first = database.client.insert(Bare).await.unwrap();
    assert_eq!(first.job.args.get(), "null");
    assert!(database.client.insert(Bare).await.unwrap().duplicate);
    let by_sql = "SELECT duplicate::text FROM {schema}.insert_job('bare', 'null',
        unique_policy => '{\"keys\": [\"args\"], \"scope\": \"queued\"}')";
    assert_eq!(database.text(by_sql).await, "true");
    let mut stage = Stage::of::<Bare>(&database).await;
    stage.works(first.id(), Outcome::complete(), JobState::Completed).await;
}

#[support::test]
async fn nobody_is_mailed_twice_for_one_event(database: Database) {
    let mail = |user: u64, event: &str| {
        let args = json!({"user_id": user, "event": event});
        NewJob::new("mail", &args).unique_key(UniqueKey::tagged_hash_of("mail", (user, event)))
    };
    let mut duplicates = Vec::new();
    for (user, event) in [(1, "signup"), (2, "signup"), (1, "order"), (1, "signup")] {
        duplicates.push(database.client.insert(mail(user, event)).await.unwrap().duplicate);
    }
    assert_eq!(duplicates, [false, false, false, true]);
}

/// The page's example of a tagged hash, with its SHA-256 in full. The tag keeps two kinds with equal data apart.
#[test]
fn a_hash_is_the_sha256_of_canonical_json_behind_its_tag_if_it_has_one() {
    let data = ("alice@example.com", "Welcome!");
    let [mail, push] = ["send_email", "send_push"].map(|kind| UniqueKey::tagged_hash_of(kind, data));
    let hash = "0cfe96e6ddf9e83b8fad85f07faafa2415cea01424421084e507a3ee4900f865";
    assert_eq!(mail.text().unwrap(), format!("send_email:{hash}"));
    assert_ne!(mail, push);
    assert_eq!(UniqueKey::hash_of(data).text().unwrap(), hash);
}

#[test]
fn member_order_makes_no_difference_to_a_hash() {
    #[derive(Serialize)]
    struct ToFirst {
        to: &'static str,
        subject: &'static str,
    }
    #[derive(Serialize)]
    struct SubjectFirst {
        subject: &'static str,
        to: &'static str,
    }
    let keys = [
        UniqueKey::hash_of(ToFirst { to: "a", subject: "b" }),
        UniqueKey::hash_of(SubjectFirst { to: "a", subject: "b" }),
        UniqueKey::hash_of(json!({"subject": "b", "to": "a"})),
    ];
    assert!(keys.iter().all(|key| *key == keys[0]));
}

/// A whole payload, one field, or a tuple of fields may identify the job.
#[test]
fn a_key_is_made_of_the_payload_of_a_field_or_of_a_tuple() {
    let user = |user_id| SendWelcomeEmail { user_id };
    assert_eq!(UniqueKey::hash_of(user(1)), UniqueKey::hash_of(json!({"user_id": 1})));
    assert_eq!(UniqueKey::hash_of(user(1).user_id), UniqueKey::hash_of(1));
    assert_eq!(UniqueKey::hash_of((user(1).user_id, "x")), UniqueKey::hash_of(json!([1, "x"])));
    assert_ne!(UniqueKey::hash_of(user(1)), UniqueKey::hash_of(user(2)));
    assert_ne!(UniqueKey::hash_of(("a", "b")), UniqueKey::hash_of(("b", "a")), "the order of a tuple counts");
}

#[support::test]
async fn a_raw_key_is_neither_hashed_nor_changed(database: Database) {
    for text in ["rebuild_index", " spaces and CAPS ", "e\u{301}", "{\"a\": 1}"] {
        let inserted = database.client.insert(job("a").unique_key(UniqueKey::raw(text))).await.unwrap();
        assert_eq!(inserted.job.unique_key.as_deref(), Some(text));
        assert_eq!([UniqueKey::from(text), UniqueKey::from(text.to_owned())], [(); 2].map(|()| UniqueKey::raw(text)));
        assert_eq!(database.client.holder(text).await.unwrap().unwrap().id, inserted.id());
    }
}

#[support::test]
async fn a_types_own_key_comes_with_every_insert(database: Database) {
    let first = database.client.insert(SendWelcomeEmail { user_id: 42 }).await.unwrap();
    let expected = UniqueKey::tagged_hash_of("send_welcome_email", 42_u64);
    assert_eq!(first.job.unique_key.as_deref(), Some(expected.text().unwrap()));
    let hash = "73475cb40a568e8da8a045ced110137e159f890ac4da883b6b17dc651b3a8049";
    assert_eq!(expected.text().unwrap(), format!("send_welcome_email:{hash}"));
    let answers = database.client.insert_many([43, 42].map(|user_id| SendWelcomeEmail { user_id })).await.unwrap();
    assert_eq!(answers.iter().map(|answer| answer.duplicate).collect::<Vec<_>>(), [false, true]);
    assert_eq!(answers[1].id(), first.id());
}

#[support::test]
async fn a_calls_key_overrides_the_types(database: Database) {
    database.client.insert(SendWelcomeEmail { user_id: 42 }).await.unwrap();
    let insert = || database.client.insert(SendWelcomeEmail { user_id: 42 }).unique_key(UniqueKey::raw("mine"));
    let own = insert().await.unwrap();
    assert!(!own.duplicate);
    assert_eq!(own.job.unique_key.as_deref(), Some("mine"));
    assert!(insert().await.unwrap().duplicate);
}

#[test]
fn the_default_scope_of_a_key_is_queued() {
    let states = |key: UniqueKey| key.claim().unwrap().terms.states;
    assert_eq!(states(UniqueKey::raw("rebuild_index")), UniqueScope::Queued.states());
    assert_eq!(states(UniqueKey::hash_of(1)), UniqueScope::Queued.states());
    let active = UniqueKey::raw("rebuild_index").scope(UniqueScope::Active);
    assert_eq!(states(active), UniqueScope::Active.states());
}

#[support::test]
async fn queued_keeps_duplicates_out_while_the_job_waits(database: Database) {
    let insert = || database.client.insert(rebuild());
    let scheduled = insert().scheduled_in(HOUR).await.unwrap();
    assert_eq!(scheduled.job.state, JobState::Scheduled);
    assert!(insert().await.unwrap().duplicate);
    database.set_state(scheduled.id(), "available").await;
    assert!(insert().await.unwrap().duplicate);
    let mut stage = Stage::of::<RebuildIndex>(&database).await;
    assert_eq!(stage.started().await, scheduled.id());
    let next = insert().scheduled_in(HOUR).await.unwrap();
    assert!(!next.duplicate, "one may wait while one runs, so that no change is missed");
    assert!(insert().await.unwrap().duplicate, "but no more than one");
    let row = stage.ends(scheduled.id(), failure(), JobState::Retryable).await;
    assert!(!row.claims, "the second job holds the key by now");
    assert_eq!(insert().await.unwrap().id(), next.id());
    // With the second gone, the first takes its key back at its next change of state.
    database.set_state(next.id(), "cancelled").await;
    database.pass(HOUR).await;
    assert!(stage.works(scheduled.id(), failure(), JobState::Retryable).await.claims);
}

#[support::test]
async fn active_keeps_duplicates_out_while_the_job_is_processed_too(database: Database) {
    let insert = || {
        let key = UniqueKey::raw("rebuild_index").scope(UniqueScope::Active);
        database.client.insert(RebuildIndex {}).unique_key(key)
    };
    let mut stage = Stage::of::<RebuildIndex>(&database).await;
    let first = insert().await.unwrap();
    stage.started().await;
    let second = insert().await.unwrap();
    assert!(second.duplicate);
    assert_eq!((second.id(), second.job.state), (first.id(), JobState::Running));
    stage.ends(first.id(), failure(), JobState::Retryable).await;
    assert!(insert().await.unwrap().duplicate, "not yet successful");
    database.pass(HOUR).await;
    stage.works(first.id(), Outcome::complete(), JobState::Completed).await;
    assert!(!insert().await.unwrap().duplicate);
}

#[support::test]
async fn exists_keeps_duplicates_out_until_retention_reaps_the_job(database: Database) {
    let insert = || {
        let key = UniqueKey::raw("rebuild_index").scope(UniqueScope::Exists);
        database.client.insert(job("rebuild")).unique_key(key)
    };
    let first = insert().await.unwrap();
    database.set_state(first.id(), "completed").await;
    prune(&database, Retention::forever()).await;
    let second = insert().await.unwrap();
    assert_eq!((second.duplicate, second.id(), second.job.state), (true, first.id(), JobState::Completed));
    prune(&database, Retention::forever().completed(Duration::ZERO)).await;
    assert!(database.client.job(first.id()).await.unwrap().is_none());
    assert!(!insert().await.unwrap().duplicate);
}

/// The key keeps a second job out within its scope, and the job that is there comes back instead. The page's last example: the
/// call succeeds, and says that the job was there already.
#[support::test]
async fn a_collision_is_a_success_that_says_duplicate_and_returns_the_job_that_is_there(database: Database) {
    let first = database.client.insert(rebuild()).await.unwrap();
    let inserted = database.client.insert(RebuildIndex {}).unique_key(UniqueKey::raw("rebuild_index")).await.unwrap();
    assert!(!first.duplicate && inserted.duplicate);
    assert_eq!(jobs(&database).await, 1);
    assert_eq!(inserted.job.id.to_string(), first.id().to_string());
    let body = serde_json::to_value(&inserted).unwrap();
    assert_eq!(body["duplicate"], true, "all that a Zizq front door answers with can be serialised");
    assert_eq!(body["job"]["id"], first.id().to_string());
}
