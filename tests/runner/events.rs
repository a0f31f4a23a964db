//! Events: their content and their time. A slow subscriber delays neither inserts nor work.

use uniqueue::Event;

use super::stopping::endless;
use support::prelude::*;

async fn next(events: &mut Events) -> Event {
    timeout(WAIT, events.recv()).await.expect("an event in time").expect("an open bus")
}

/// The words told of a job up to one of them.
async fn words(events: &mut Events, id: JobId, last: &str) -> Vec<&'static str> {
    let mut words = Vec::new();
    while words.last() != Some(&last) {
        let event = next(events).await;
        if event.id == id {
            words.push(event.happened.as_str());
        }
    }
    words
}

/// What is there already, without waiting.
async fn waiting(events: &mut Events) -> Vec<Event> {
    let mut found = Vec::new();
    while let Ok(Some(event)) = timeout(Duration::ZERO, events.recv()).await {
        found.push(event);
    }
    found
}

#[support::test]
async fn inserts_tell_what_was_inserted_replaced_and_met(database: Database, client: &Client) {
    let mut events = client.clone().events();
    let key = || UniqueKey::raw("k");
    let first = client.insert(job("a").queue("q").unique_key(key())).await.unwrap();
    let batch = [job("b").pending(), job("c").unique_key(key()), job("d")];
    let answers = client.insert_many(batch).await.unwrap();
    let replacing = key().on_conflict(OnConflict::Replace);
    let second = client.insert(job("e").unique_key(replacing)).await.unwrap();
    client.insert(job("f").unique_key(key().on_conflict(OnConflict::Reject))).await.unwrap_err();
    let waiting_key = || UniqueKey::raw("waits").on_conflict(OnConflict::RunAgain);
    let third = client.insert(job("g").pending().unique_key(waiting_key())).await.unwrap();
    let batch =
        [job("h").unique_key(waiting_key()), job("g").unique_key(waiting_key().on_conflict(OnConflict::Update))];
    client.insert_many(batch).await.unwrap();

    let told = waiting(&mut events).await;
    let words: Vec<_> = told.iter().map(|event| (event.id, event.kind.as_str(), event.happened.as_str())).collect();
    let expected = [
        (first.id(), "a", "inserted"),
        (answers[0].id(), "b", "inserted"),
        (first.id(), "a", "duplicate"),
        (answers[2].id(), "d", "inserted"),
        (second.id(), "e", "inserted"),
        (third.id(), "g", "inserted"),
        (third.id(), "g", "covered"),
        (third.id(), "g", "updated"),
    ];
    assert_eq!(words, expected);
    assert_eq!((told[0].queue.as_str(), told[0].attempt), ("q", 0));
    assert!(matches!(told[1].happened, Happened::Inserted { state: JobState::Pending, replaced: None, .. }));
    assert!(matches!(told[2].happened, Happened::Duplicate { state: JobState::Available, .. }));
    assert!(matches!(told[4].happened, Happened::Inserted { replaced: Some(id), .. } if id == first.id()));
    assert!(matches!(told[6].happened, Happened::Covered { state: JobState::Pending, .. }));
    assert!(matches!(told[7].happened, Happened::Updated { state: JobState::Pending, .. }));
}

#[support::test]
async fn in_the_callers_transaction_inserted_means_not_committed_yet(database: Database) {
    let mut events = database.client.events();
    let mut tx = database.pool().begin().await.unwrap();
    let inserted = database.client.insert(job("a")).tx(&mut tx).await.unwrap();
    assert_eq!(next(&mut events).await.id, inserted.id());
    assert!(database.client.job(inserted.id()).await.unwrap().is_none());
    tx.rollback().await.unwrap();
    assert!(waiting(&mut events).await.is_empty());
}

#[support::test]
async fn every_end_of_an_attempt_is_told_as_what_became_of_the_job(database: Database) {
    let mut events = database.client.events();
    let work = |job: RunningJob<Task>| async move {
        match job.args.n {
            0 => Ok(Outcome::complete()),
            1 => Err(format!("no luck {}", job.attempt())),
            2 => Ok(Outcome::snooze(Duration::from_secs(600))),
            3 => Ok(Outcome::cancel("not wanted")),
            4 => Ok(Outcome::discard("hopeless")),
            _ => Ok(Outcome::complete_with(5).unwrap()),
        }
    };
    database.start(quick(&database.client).worker(work)).await;
    for n in 0..6 {
        let job = database.client.insert(Task { n }).max_attempts(2).await.unwrap();
        let expected = match n {
            0 | 5 => vec!["inserted", "started", "completed"],
            1 => vec!["inserted", "started", "retried", "started", "discarded"],
            2 => vec!["inserted", "started", "snoozed"],
            3 => vec!["inserted", "started", "cancelled"],
            _ => vec!["inserted", "started", "discarded"],
        };
        let mut told = Vec::new();
        while told.len() < expected.len() {
            told.push(next(&mut events).await);
        }
        // Inserts, workers and the recording of results publish independently, each after its commit.
        told.sort_by_key(|event| (event.attempt, event.happened.as_str() != "started"));
        assert!(told.iter().all(|event| event.id == job.id() && event.kind.as_str() == "task"), "{told:?}");
        // A runner can be quicker than the insert's own answer.
        told.sort_by_key(|event| event.happened.as_str() != "inserted");
        assert_eq!(told.iter().map(|event| event.happened.as_str()).collect::<Vec<_>>(), expected);
        let attempts: Vec<_> = told.iter().map(|event| event.attempt).collect();
        assert_eq!(attempts, if n == 1 { vec![0, 1, 1, 2, 2] } else { vec![0, 1, 1] });
        match (n, &told[2].happened) {
            (1, Happened::Retried { error: Some(error), after, .. }) => {
                assert_eq!((error.as_str(), *after), ("no luck 1", Duration::ZERO));
                assert!(matches!(&told[4].happened, Happened::Discarded { reason, .. } if reason == "no luck 2"));
            }
            (2, Happened::Snoozed { after, .. }) => assert_eq!(*after, Duration::from_secs(600)),
            (3, Happened::Cancelled { reason: Some(reason), .. }) => assert_eq!(reason, "not wanted"),
            (4, Happened::Discarded { reason, .. }) => assert_eq!(reason, "hopeless"),
            (0 | 5, Happened::Completed) => {}
            other => panic!("{other:?}"),
        }
        // The database had taken the result before it was told.
        let row = database.client.job(job.id()).await.unwrap().unwrap();
        assert_ne!(row.state, JobState::Running);
    }
}

#[support::test]
async fn changes_by_hand_are_told_of_the_jobs_that_they_changed(database: Database, client: &Client) {
    let waits = client.insert(job("a").queue("q")).await.unwrap();
    let done = client.insert(job("a")).await.unwrap();
    database.set_state(done.id(), "completed").await;
    let mut events = client.events();
    client.cancel([waits.id(), done.id()]).await.unwrap();
    client.retry([waits.id()]).await.unwrap();
    let told = waiting(&mut events).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|event| event.id == waits.id() && event.queue.as_str() == "q"));
    assert!(matches!(told[0].happened, Happened::Cancelled { reason: None, .. }));
    assert!(matches!(told[1].happened, Happened::Retried { error: None, .. }));
}

#[support::test]
async fn a_job_that_another_keeps_from_coming_back_is_told_as_discarded(database: Database) {
    static GATE: Gate = Gate::closed();
    let work = async |_: RunningJob<Task>| {
        GATE.pass().await;
        Outcome::snooze(Duration::from_secs(600))
    };
    database.start(quick(&database.client).worker(work)).await;
    let key = || UniqueKey::raw("k").on_reentry(OnReentry::Discard);
    let job = database.client.insert(Task { n: 1 }).unique_key(key()).await.unwrap();
    GATE.begun(1).await;
    let rival = database.client.insert(Task { n: 2 }).unique_key(key()).scheduled_in(Duration::from_secs(600)).await;
    assert!(!rival.unwrap().duplicate, "Queued does not cover running");
    let mut events = database.client.events();
    GATE.open(1);
    let event = next(&mut events).await;
    assert_eq!(event.id, job.id());
    assert!(matches!(event.happened, Happened::Discarded { reason, .. } if reason.contains("unique key")));
    // An operator's retry meets the same holder, and leaves the job as it is.
    assert_eq!(database.client.retry([job.id()]).await.unwrap(), []);
}

#[support::test]
async fn a_change_by_hand_tells_which_jobs_it_discarded_instead(database: Database, client: &Client) {
    let keyed =
        || job("a").unique_key(UniqueKey::raw("k").states([JobState::Available]).on_reentry(OnReentry::Discard));
    // None of them claims the key, until it comes back.
    let mut later = Vec::new();
    for waits in [keyed().scheduled_in(HOUR), keyed().pending(), keyed().scheduled_in(HOUR)] {
        later.push(client.insert(waits).await.unwrap().id());
    }
    let free = client.insert(job("a").scheduled_in(HOUR)).await.unwrap();
    let holder = client.insert(keyed()).await.unwrap();
    assert!(!holder.duplicate);
    let mut events = client.events();
    for (n, id) in later.into_iter().enumerate() {
        let change = match n {
            0 => client.retry([id, free.id()]),
            1 => client.release([id, free.id()]),
            _ => client.reschedule([id, free.id()], time::OffsetDateTime::UNIX_EPOCH),
        };
        let mut discarded = Vec::new();
        let changed = change.on_discarded(|ids| discarded.extend_from_slice(ids)).await.unwrap();
        assert!(changed.contains(&id));
        assert_eq!(discarded, [id]);
        let told = waiting(&mut events).await;
        let told: Vec<_> = told.iter().filter(|event| event.id == id).map(|event| &event.happened).collect();
        assert!(matches!(told[..], [Happened::Discarded { .. }]), "{told:?}");
    }
    assert_eq!(client.holder("k").await.unwrap().map(|job| job.id), Some(holder.id()));
}

#[support::test]
async fn the_jobs_of_a_dead_runner_are_told_as_rescued_and_a_killer_as_discarded(database: Database, client: &Client) {
    let lost = client.insert(job("elsewhere").queue("q")).await.unwrap();
    let killer = client.insert(job("elsewhere")).max_attempts(1).await.unwrap();
    for job in [&lost, &killer] {
        database.set_state(job.id(), "running").await;
        database.execute(&format!("UPDATE {{schema}}.job SET attempt = 1 WHERE id = '{}'", job.id())).await;
    }
    let mut events = client.events();
    database.start(quick(client).worker(at_once)).await;
    let mut told = [next(&mut events).await, next(&mut events).await];
    told.sort_by_key(|event| event.id);
    assert_eq!(told.each_ref().map(|event| (event.id, event.attempt)), [(lost.id(), 1), (killer.id(), 1)]);
    assert_eq!((told[0].queue.as_str(), &told[0].happened), ("q", &Happened::Rescued));
    assert!(matches!(&told[1].happened, Happened::Discarded { reason, .. } if reason.starts_with("rescued")));
}

#[support::test]
async fn what_a_periodic_schedule_inserts_is_told_as_inserted(database: Database) {
    let mut events = database.client.events();
    let ticks = PeriodicJob::cron("ticks", "* * * * * *", Task { n: 1 });
    database.start(quick(&database.client).periodic(ticks).worker(at_once)).await;
    let first = loop {
        let event = next(&mut events).await;
        if event.happened.as_str() == "inserted" {
            break event;
        }
    };
    assert_eq!((first.kind.as_str(), first.queue.as_str(), first.attempt), ("task", "default", 0));
    assert!(database.client.job(first.id).await.unwrap().is_some());
}

#[support::test]
async fn a_job_that_a_stop_gives_back_is_told_as_given_back(database: Database) {
    let (work, started) = endless();
    let runner = quick(&database.client).stop_timeout(Duration::from_millis(10)).worker(work).start().await.unwrap();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    timeout(WAIT, started.notified()).await.unwrap();
    let mut events = database.client.events();
    runner.stop().await.unwrap();
    assert_eq!(words(&mut events, job.id(), "given_back").await, ["given_back"]);
}

#[support::test]
async fn a_subscriber_that_never_reads_loses_the_oldest_and_costs_nobody_anything(database: Database) {
    const JOBS: u32 = 500;
    const BUFFER: usize = 16;
    let client = database.builder().event_buffer(BUFFER).pool(database.pool().clone());
    let mut subscribers = [client.events(), client.events()];
    let runner = quick(&client).worker(at_once).start().await.unwrap();
    client.insert_many((0..JOBS).map(|n| Task { n })).await.unwrap();
    let last = client.insert(Task { n: JOBS }).priority(-1).await.unwrap();
    database.until_state(last.id(), JobState::Completed).await;
    runner.stop().await.unwrap();
    // At least three events a job; the ring holds the latest, as many as it was told to.
    let told = u64::from(JOBS + 1) * 3;
    for events in &mut subscribers {
        let kept = waiting(events).await;
        assert_eq!(kept.len(), BUFFER);
        assert!(events.missed() >= told - BUFFER as u64);
        assert_eq!(events.missed(), 0, "told once");
        assert_eq!((kept[BUFFER - 1].id, &kept[BUFFER - 1].happened), (last.id(), &Happened::Completed));
    }
}

#[support::test]
async fn a_subscription_begins_when_it_is_made_and_ends_with_the_client(database: Database) {
    let client = database.client_over(database.pool().clone());
    client.insert(job("before")).await.unwrap();
    let mut events = client.events();
    drop(client.events());
    let after = client.insert(job("after")).await.unwrap();
    drop(client);
    assert_eq!(next(&mut events).await.id, after.id());
    assert!(events.recv().await.is_none());
}
