//! States, periods and the strength of the promise.

use super::{email, enqueue, insert};
use crate::seeds::{Stage, failure, prune, race};
use support::prelude::*;

#[derive(serde::Deserialize, serde::Serialize, Job)]
#[job(kind = "email.send")]
struct EmailSend {
    user_id: u64,
    locale: String,
}

/// The page's welcome email: none within seven days, even after the first was sent, and whatever
/// retention says about completed jobs meanwhile.
#[support::test]
async fn completed_in_the_states_with_a_week_keeps_a_welcome_email_from_going_twice(database: Database) {
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
#[support::test]
async fn scheduled_alone_refuses_a_second_schedule_and_nothing_else(database: Database) {
    let report = || {
        let policy = json!({"states": ["scheduled"]});
        database.client.insert(enqueue(&json!({"type": "report", "args": [], "unique": policy})).unwrap())
    };
    let first = report().scheduled_in(HOUR).await.unwrap();
    assert!(report().scheduled_in(2 * HOUR).await.unwrap_err().is_duplicate());
    database.set_state(first.id(), "running").await;
    assert!(report().scheduled_in(HOUR).await.is_ok());
}

/// The period begins with the original's creation, and its end frees the key in every state.
#[support::test]
async fn after_the_period_a_new_job_is_permitted_whatever_the_state_of_the_first(database: Database) {
    for state in JobState::ALL {
        let all = UniquePolicy::from_ojs(&json!({"period": "PT5M"})).unwrap().scope(UniqueScope::Exists);
        let of_state = || NewJob::new(state.as_str(), &json!({})).unique(all.clone());
        let first = database.client.insert(of_state()).scheduled_in(HOUR).await.unwrap();
        assert_eq!(first.job.unique_until.unwrap() - first.job.created_at, 5 * MINUTE, "the schedule plays no part");
        database.set_state(first.id(), state.as_str()).await;
        assert!(database.client.insert(of_state()).await.unwrap_err().is_duplicate());
        database.execute("UPDATE {schema}.job SET unique_until = now()").await;
        assert!(!database.client.insert(of_state()).await.unwrap().duplicate, "{state}");
        let first = database.client.job(first.id()).await.unwrap().unwrap();
        assert_eq!((first.claims, first.state), (false, state), "otherwise it is left alone");
    }
}

#[support::test]
async fn without_a_period_only_the_states_end_the_claim(database: Database) {
    for policy in [json!({}), json!({"period": null})] {
        let document = json!({"type": policy.to_string(), "args": [], "unique": policy});
        let first = insert(&database, &document).await.unwrap();
        database.pass(400 * DAY).await;
        assert!(insert(&database, &document).await.is_err());
        database.set_state(first.id(), "cancelled").await;
        assert!(insert(&database, &document).await.is_ok());
    }
}

#[support::test]
async fn key_state_and_period_work_together_with_and(database: Database) {
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

/// Strong: two jobs with one key never live side by side, not even for a moment, and not under
/// replace either.
#[support::test(with_connections(12))]
async fn strong_no_two_jobs_with_one_key_coexist(database: Database) {
    for on_conflict in ["ignore", "reject", "replace", "replace_except_schedule"] {
        let document = json!({"type": on_conflict, "args": {}, "unique": {"on_conflict": on_conflict}});
        race(&database, 12, || enqueue(&document).unwrap()).await;
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE state = 'available'").await, 4);
    // What holds it up is an index, which no program can pass by.
    let twin = "INSERT INTO {schema}.job (id, kind, unique_key, unique_states)
        SELECT gen_random_uuid(), kind, unique_key, unique_states FROM {schema}.job WHERE claims LIMIT 1";
    assert_eq!(database.refused(twin).await.0, "23505");
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

/// The page's flow, step by step, on a real runner.
#[support::test]
async fn the_flow_of_a_job_that_fails_until_it_is_discarded(database: Database) {
    let policy = json!({"keys": ["type", "args"], "args_keys": ["user_id"]});
    let document = email(policy);
    let mut stage = Stage::of::<EmailSend>(&database).await;
    let first = database.client.insert(enqueue(&document).unwrap()).max_attempts(2).await.unwrap();
    let row = stage.works(first.id(), failure(), JobState::Retryable).await;
    assert!(row.claims, "still claimed");
    assert_eq!(insert(&database, &document).await.unwrap_err().rejections()[0].holder_state, Some(JobState::Retryable));
    database.pass(HOUR).await;
    let row = stage.works(first.id(), failure(), JobState::Discarded).await;
    assert!(!row.claims, "released");
    assert!(!insert(&database, &document).await.unwrap().duplicate);
}

/// When a retry comes due nothing is checked again: it runs even if a twin came in meanwhile.
#[support::test]
async fn a_retry_that_comes_due_is_not_checked_again(database: Database) {
    let document = email(json!({"states": ["available", "scheduled"]}));
    let mut stage = Stage::of::<EmailSend>(&database).await;
    let first = insert(&database, &document).await.unwrap();
    stage.works(first.id(), failure(), JobState::Retryable).await;
    // A twin that waits until tomorrow holds the key.
    let twin = database.client.insert(enqueue(&document).unwrap()).scheduled_in(DAY).await.unwrap();
    assert!(!twin.duplicate);
    database.pass(HOUR).await;
    stage.works(first.id(), Outcome::complete(), JobState::Completed).await;
    assert!(database.client.job(twin.id()).await.unwrap().unwrap().claims);
}
