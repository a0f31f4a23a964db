//! Zizq's Node client: the page on its unique jobs. The tests of its scopes are in `zizq_rust`, whose page has them as well.

use super::jobs;
use support::prelude::*;

const EMAIL: &str = "send_email:welcome:42";

/// The page's raw enqueue: type, queue, payload, key and scope, each given by hand.
fn send_email() -> NewJob {
    NewJob::new("send_email", &json!({"userId": 42, "template": "welcome"}))
        .queue("emails")
        .unique_key(UniqueKey::raw(EMAIL).scope(UniqueScope::Active))
}

#[derive(Clone, Deserialize, Serialize)]
struct ExampleJob {
    to: String,
    subject: String,
}

/// The page's `uniqueKey()`: by the whole payload, under the type's name.
impl Job for ExampleJob {
    const KIND: &'static str = "example_job";

    fn unique_key(&self) -> Option<UniqueKey> {
        Some(UniqueKey::zizq_node(Self::KIND, self))
    }
}

fn example(to: &str, subject: &str) -> ExampleJob {
    ExampleJob { to: to.to_owned(), subject: subject.to_owned() }
}

fn key_of(job: &impl Job) -> String {
    job.unique_key().expect("a key").text().expect("a text").to_owned()
}

/// Two enqueues of one job in quick succession are one job; the scope is optional.
#[support::test]
async fn identical_jobs_in_quick_succession_become_one(database: Database) {
    let insert = || database.client.insert(example("test@test.com", "Example"));
    let answers = [insert().await.unwrap(), insert().await.unwrap(), insert().await.unwrap()];
    assert!(answers.iter().all(|answer| answer.id() == answers[0].id()));
    assert_eq!(answers[0].job.unique_states, Some(UniqueScope::Queued.states()));
    assert_eq!(jobs(&database).await, 1);
}

#[support::test]
async fn a_raw_enqueue_brings_its_own_key_and_scope(database: Database) {
    let inserted = database.client.insert(send_email()).await.unwrap().job;
    assert_eq!((inserted.kind.as_str(), inserted.queue.as_str()), ("send_email", "emails"));
    assert_eq!(inserted.args_as::<Value>().unwrap(), json!({"userId": 42, "template": "welcome"}));
    assert_eq!(inserted.unique_key.as_deref(), Some(EMAIL));
    assert_eq!(inserted.unique_states, Some(UniqueScope::Active.states()));
}

/// Attached to a type, the helper hashes chosen fields, in any member order, behind the type.
#[test]
fn a_helper_on_the_type_hashes_chosen_fields_behind_the_type() {
    #[derive(Deserialize, Serialize)]
    struct SendEmail {
        #[serde(rename = "userId")]
        user_id: u64,
        action: String,
        body: String,
    }
    impl Job for SendEmail {
        const KIND: &'static str = "sendEmail";

        fn unique_key(&self) -> Option<UniqueKey> {
            let fields = json!({"userId": self.user_id, "action": self.action});
            Some(UniqueKey::zizq_node(Self::KIND, fields).scope(UniqueScope::Queued))
        }
    }
    let email = |action: &str, body: &str| SendEmail { user_id: 42, action: action.to_owned(), body: body.to_owned() };
    // SHA-256 of {"action":"welcome","userId":42,}
    let hash = "3501785610d04779fedda3614d6505c8c22736888a297aa769f1a6fafe888116";
    assert_eq!(key_of(&email("welcome", "a")), format!("sendEmail:{hash}"));
    assert_eq!(key_of(&email("welcome", "b")), key_of(&email("welcome", "a")));
    assert_ne!(key_of(&email("goodbye", "a")), key_of(&email("welcome", "a")));
    assert_eq!(
        UniqueKey::zizq_node("t", json!({"userId": 42, "action": "welcome"})),
        UniqueKey::zizq_node("t", json!({"action": "welcome", "userId": 42})),
    );
}

/// A broader newcomer does not take the place of a narrower job that was there first.
#[support::test]
async fn whichever_was_enqueued_first_is_retained(database: Database) {
    let with = |scope| database.client.insert(job("a")).unique_key(UniqueKey::raw("k").scope(scope));
    let first = with(UniqueScope::Queued).await.unwrap();
    for broader in [UniqueScope::Active, UniqueScope::Completed, UniqueScope::Exists] {
        let second = with(broader).await.unwrap();
        assert!(second.duplicate);
        assert_eq!(second.id(), first.id());
    }
    let row = database.client.job(first.id()).await.unwrap().unwrap();
    assert_eq!(row.unique_states, Some(UniqueScope::Queued.states()), "and it keeps its own scope");
}

/// The whole payload within the type: equal payloads are equal within one type and no other.
#[test]
fn the_helper_uses_the_whole_payload_within_the_type() {
    let payload = example("a", "b");
    assert_eq!(key_of(&payload), key_of(&payload.clone()));
    assert_ne!(UniqueKey::zizq_node("one", &payload), UniqueKey::zizq_node("other", &payload));
    assert_ne!(key_of(&payload), key_of(&example("a", "c")));
}

#[support::test]
async fn two_types_may_be_the_same_job(database: Database) {
    let notify = |kind| database.client.insert(job(kind)).unique_key(UniqueKey::raw("notify:42"));
    let push = notify("push_notification").await.unwrap();
    let email = notify("email").await.unwrap();
    assert!(email.duplicate);
    assert_eq!((email.id(), email.job.kind.as_str()), (push.id(), "push_notification"));
}

/// The hashes that the page prints: of whole payloads, of one field, and of hourly slots: 1:30 and 1:59, then 2:00 and 2:05.
/// These are of 2026-04-25 at UTC+10, the day the page was written.
#[test]
fn the_printed_hashes() {
    let of = |payload: Value| UniqueKey::zizq_node("example_job", payload).text().unwrap().to_owned();
    let slot = |at: OffsetDateTime| {
        let bucket = at.unix_timestamp() / 3_600 * 3_600_000;
        of(json!({"to": "test@test.com", "subject": "Example", "bucket": bucket}))
    };
    let whole = "3c6da81af475f0b1ddeac43095199334b3ebfaafff9a7e6794b4d4e38122c597";
    let first_hour = "d59dfcd80066c8a8b55e0d8faa929a6074bdd1aa8b904349b0987a8048bf8d8a";
    let second_hour = "689a17f552bca147b28f39f8d909f02709738e23810cfaf633b221807498f59a";
    for (key, hash) in [
        (key_of(&example("test@test.com", "Example")), whole),
        (of(json!({"subject": "Example", "to": "test@test.com"})), whole),
        (
            key_of(&example("other@test.com", "Example")),
            "f702b3ff543464bb9bb1bc2e65734f6df07271baeca1a0452e67096ce71a86bb",
        ),
        (of(json!({"to": "test@test.com"})), "b5c4c35eeacf8bbf2034b0ed8b0e2f9ac3e7da66b79b543e9c6c124d90c371a3"),
        (of(json!({"to": "other@test.com"})), "fadcd704b379aa47dffc6aadd7d77bfd2a74baa9c1ee9a11913df6f85faa4bd6"),
        (slot(datetime!(2026-04-25 13:30 +10)), first_hour),
        (slot(datetime!(2026-04-25 13:59 +10)), first_hour),
        (slot(datetime!(2026-04-25 14:00 +10)), second_hour),
        (slot(datetime!(2026-04-25 14:05 +10)), second_hour),
    ] {
        assert_eq!(key, format!("example_job:{hash}"));
    }
}

/// The page's pair of enqueues, and the same in bulk for a job in place before and for one within the bulk.
#[support::test]
async fn a_duplicate_has_the_id_of_the_job_in_place_and_the_flag(database: Database) {
    let first = database.client.insert(send_email()).await.unwrap();
    let second = database.client.insert(send_email()).await.unwrap();
    assert_eq!((first.duplicate, second.duplicate, second.id()), (false, true, first.id()));
    let answers = database.client.insert_many([send_email(), job("plain"), send_email()]).await.unwrap();
    assert_eq!(answers.iter().map(|answer| answer.duplicate).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!((answers[0].id(), answers[2].id()), (first.id(), first.id()));
    let other = || job("a").unique_key(UniqueKey::raw("other"));
    let answers = database.client.insert_many([other(), other()]).await.unwrap();
    assert_eq!(answers.iter().map(|answer| answer.duplicate).collect::<Vec<_>>(), [false, true]);
    assert_eq!(answers[0].id(), answers[1].id());
}

/// An application can enqueue again and again without an error to handle, in one transaction too.
#[support::test]
async fn duplicates_need_no_error_handling(database: Database) {
    let mut tx = database.pool().begin().await.unwrap();
    for n in 0..5 {
        let inserted = database.client.insert(send_email()).tx(&mut tx).await.unwrap();
        assert_eq!(inserted.duplicate, n > 0);
    }
    tx.commit().await.unwrap();
    assert_eq!(jobs(&database).await, 1);
}
