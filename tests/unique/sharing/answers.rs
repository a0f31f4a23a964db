//! Each insert gets its own answer.

use uniqueue::Result;

use super::{at_once, keyed};
use support::prelude::*;

#[support::test]
async fn many_inserts_at_once_take_a_statement_or_two_and_each_gets_its_own_answer(database: Database) {
    database.client.insert(job("a")).await.unwrap();
    let jobs = (0..100).map(|n| NewJob::new("a", &json!({"n": n})).priority(n)).collect();
    let (answers, statements) = counting_statements(at_once(&database.client, jobs)).await;
    for (n, answer) in answers.into_iter().enumerate() {
        let answer = answer.unwrap();
        assert_eq!((answer.job.args.get(), i64::from(answer.job.priority)), (&*format!("{{\"n\":{n}}}"), n as i64));
        let stored = database.client.job(answer.id()).await.unwrap().unwrap();
        assert_eq!(stored.args_as::<serde_json::Value>().unwrap(), json!({"n": n}));
    }
    assert!(statements <= 2, "{statements} statements");
}

#[support::test]
async fn an_insert_alone_takes_one_statement(database: Database) {
    database.client.insert(keyed("warm")).await.unwrap();
    let (inserted, statements) = counting_statements(database.client.insert(keyed("k")).into_future()).await;
    assert!(!inserted.unwrap().duplicate);
    assert_eq!(statements, 1);
}

#[support::test]
async fn of_equal_keys_at_once_one_is_inserted_and_the_others_are_its_duplicates(database: Database) {
    let answers = at_once(&database.client, (0..60).map(|n| keyed(["x", "y", "z"][n % 3])).collect()).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    for key in 0..3 {
        let of_key: Vec<_> = answers.iter().skip(key).step_by(3).collect();
        assert_eq!(of_key.iter().filter(|answer| !answer.duplicate).count(), 1);
        assert!(of_key.iter().all(|answer| answer.id() == of_key[0].id()));
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 3);
}

#[support::test]
async fn a_refused_duplicate_is_the_error_of_its_own_caller_only(database: Database) {
    let holder = database.client.insert(keyed("held")).await.unwrap();
    let refusing = |key: &str| {
        let policy = UniqueKey::raw(key).on_conflict(OnConflict::Reject);
        job("a").unique_key(policy)
    };
    let jobs = vec![keyed("free"), refusing("held"), refusing("new"), refusing("new"), job("plain")];
    let answers = at_once(&database.client, jobs).await;
    let refused: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Ok(inserted) => {
                assert!(!inserted.duplicate);
                None
            }
            Err(Error::Rejected(rejections)) => Some((rejections[0].index, rejections[0].holder)),
            Err(error) => panic!("{error}"),
        })
        .collect();
    assert_eq!(refused[1], Some((0, Some(holder.id()))));
    let new = [2, 3].into_iter().find_map(|place| answers[place].as_ref().ok()).expect("one of the twins").id();
    assert_eq!(refused.iter().flatten().count(), 2);
    assert!([2, 3].into_iter().any(|place| refused[place] == Some((0, Some(new)))));
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 4);
}

#[support::test]
async fn updates_at_once_share_statements_and_each_gets_its_own_answer(database: Database, client: &Client) {
    let updating = |n: usize| {
        let key = UniqueKey::raw((n % 10).to_string()).update(Update::append());
        NewJob::new("a", &json!({"n": [n]})).unique_key(key).pending()
    };
    let holders = client.insert_many((0..10).map(updating)).await.unwrap();
    let replacing =
        || job("a").unique_key(UniqueKey::raw("runs").scope(UniqueScope::Active).on_conflict(OnConflict::Replace));
    let running = client.insert(replacing()).await.unwrap().id();
    database.set_state(running, "running").await;
    let misfit = NewJob::new("a", &json!([])).unique_key(UniqueKey::raw("0").update(Update::append()));

    let mut jobs: Vec<_> = (0..100).map(updating).collect();
    jobs.push(replacing());
    let (mut answers, statements) = counting_statements(at_once(client, jobs)).await;
    let rejected = answers.pop().unwrap().unwrap_err();
    assert_eq!(rejected.rejections()[0].holder, Some(running));
    for (n, answer) in answers.into_iter().map(Result::unwrap).enumerate() {
        assert_eq!((answer.id(), answer.updated), (holders[n % 10].id(), true));
    }
    assert!(statements <= 4, "{statements} statements");

    // An error of one insert does not fail the other inserts of the batch.
    let mut answers = at_once(client, (0..10).map(updating).chain([misfit]).collect()).await;
    let error = answers.pop().unwrap().unwrap_err().to_string();
    assert!(error.contains("update needs objects"), "{error}");
    assert!(answers.into_iter().all(|answer| answer.unwrap().updated));
    assert_eq!(database.number("SELECT sum(jsonb_array_length(args -> 'n')) FROM {schema}.job").await, 120);
}

#[support::test]
async fn what_the_database_refuses_for_one_is_not_refused_for_the_others(database: Database) {
    database.execute("ALTER TABLE {schema}.job ADD CHECK (priority <> 13)").await;
    let bad = || job("a").priority(13);
    let jobs = (0..20).map(|n| if n % 7 == 3 { bad() } else { job("a") }).collect();
    let answers = at_once(&database.client, jobs).await;
    for (n, answer) in answers.iter().enumerate() {
        match answer {
            Ok(_) => assert_ne!(n % 7, 3),
            Err(Error::Database(_)) => assert_eq!(n % 7, 3),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 17);
}

#[support::test]
async fn nobody_waits_for_the_key_of_another(database: Database, client: &Client) {
    let mut rival = client.pool().begin().await.unwrap();
    let holder = client.insert(keyed("held")).tx(&mut rival).await.unwrap();
    let mut waiting = Vec::new();
    for n in 1..=3 {
        waiting.push(inserting(client, keyed("held")));
        database.until_inserts_wait(n).await;
    }
    let others = (0..10).map(|n| keyed(&n.to_string())).chain([job("plain")]).collect();
    assert!(at_once(client, others).await.into_iter().all(|answer| !answer.unwrap().duplicate));
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    rival.commit().await.unwrap();
    for waiting in waiting {
        let answer = timeout(WAIT, waiting).await.unwrap().unwrap().unwrap();
        assert!(answer.duplicate);
        assert_eq!(answer.id(), holder.id());
    }
}

#[support::test]
async fn r11_those_who_meet_somebody_are_told_whom_whatever_shares_their_statement(
    database: Database,
    client: &Client,
) {
    let mut holders = Vec::new();
    for key in ["held", "kept", "run"] {
        holders.push(client.insert(keyed(key)).await.unwrap().id());
    }
    let refusing = || job("a").unique_key(UniqueKey::raw("kept").on_conflict(OnConflict::Reject));
    let when_running = || job("a").unique_key(UniqueKey::raw("run").states(JobState::Running));
    for round in 0..4 {
        let lasts_an_hour = || job("a").unique_key(UniqueKey::raw(format!("old {round}")).period(HOUR));
        let old = client.insert(lasts_an_hour()).await.unwrap().id();
        database.pass(HOUR).await;
        // Where the index decides by itself, and where one in the batch keeps it from that.
        let over = if round < 2 { keyed(&format!("old {round}")) } else { lasts_an_hour() };
        let (free, plain) = (keyed(&format!("free {round}")), job("plain"));
        let mut jobs = vec![refusing(), keyed("held"), free, over, plain];
        let twin = || keyed(&format!("twin {round}"));
        match round {
            1 => jobs.push(when_running()),
            3 => jobs.extend([keyed(&format!("later {round}")).scheduled_in(HOUR), twin(), twin()]),
            _ => {}
        }
        let mut answers = at_once(client, jobs).await;
        let refused = answers.remove(0).unwrap_err();
        assert!(matches!(&refused, Error::Rejected(met) if met[0].holder == Some(holders[1])), "{refused}");
        let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
        let is_duplicate: Vec<_> = answers.iter().map(|answer| answer.duplicate).collect();
        assert_eq!(is_duplicate[..4], [true, false, false, false], "round {round}");
        assert_eq!(answers[0].id(), holders[0]);
        assert_ne!(answers[2].id(), old, "its claim was over");
        match &answers[4..] {
            [running] => assert_eq!((running.duplicate, running.id()), (true, holders[2])),
            [later, one, other] => {
                assert_eq!((later.duplicate, later.job.state), (false, JobState::Scheduled));
                assert!(one.duplicate != other.duplicate && one.id() == other.id());
            }
            others => assert!(others.is_empty()),
        }
        assert_stored(client, answers).await;
    }
}

/// As answered, so stored.
async fn assert_stored(client: &Client, answers: Vec<Inserted>) {
    for answer in answers {
        let stored = client.job(answer.id()).await.unwrap().unwrap();
        assert_eq!(serde_json::to_value(&stored).unwrap(), serde_json::to_value(&answer.job).unwrap());
    }
}

#[support::test]
async fn duplicates_at_once_are_looked_up_together_and_each_is_told_of_its_own_holder(database: Database) {
    const KEYS: usize = 20;
    let client = &database.client;
    let key = |n: usize| keyed(&format!("k{}", n % KEYS));
    let holders: Vec<_> = client.insert_many((0..KEYS).map(key)).await.unwrap();
    // Twice each, so that two in one statement may have the same holder, and one that is new.
    let jobs = (0..2 * KEYS).map(key).chain([keyed("new")]).collect();
    let (answers, statements) = counting_statements(at_once(client, jobs)).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    for (n, answer) in answers[..2 * KEYS].iter().enumerate() {
        assert_eq!((answer.duplicate, answer.id()), (true, holders[n % KEYS].id()));
    }
    assert!(!answers[2 * KEYS].duplicate);
    assert_stored(client, answers).await;
    // Two at most go beside each other, and each may look in vain.
    assert!(statements <= 4, "{statements} statements");
}
