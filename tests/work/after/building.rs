//! Graphs from Rust.

use uniqueue::AfterCondition;

use super::{after, end, insert, refusal, settle, states, states_at_end, try_insert};
use support::prelude::*;

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "count")]
struct Count {
    number: u64,
}

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "total")]
struct Total {}

#[support::test]
async fn a_whole_graph_is_inserted_in_one_call_of_the_caller_s_transaction(database: Database) {
    let jobs = || {
        let first = job("a");
        let fan = [job("b").after(&first), job("c").after(&first)];
        let last = job("d").after(&fan);
        let alarm = job("e").after_failed([&first, &last]);
        let clean = job("f").after_final(&alarm);
        let [b, c] = fan;
        [first, b, c, last, alarm, clean]
    };
    let mut tx = database.pool().begin().await.unwrap();
    database.client.insert_many(jobs()).tx(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(states(&database).await, "");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job_parent").await, 0);

    let mut tx = database.pool().begin().await.unwrap();
    let inserted = database.client.insert_many(jobs()).tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(inserted[0].job.state, JobState::Available);
    assert!(inserted[1..].iter().all(|inserted| inserted.job.state == JobState::Pending));
    let ids: Vec<_> = inserted.iter().map(|inserted| inserted.id()).collect();
    let parents = database.client.parents(ids[4]).await.unwrap();
    assert_eq!(parents.iter().map(|parent| parent.id).collect::<Vec<_>>(), [ids[0], ids[3]]);
    assert!(parents.iter().all(|parent| parent.condition == AfterCondition::Failed && parent.outcome.is_none()));
    let children = Admin::new(&database.client).children(ids[0], 10).await.unwrap();
    assert_eq!(children.iter().map(|child| child.id).collect::<Vec<_>>(), [ids[1], ids[2], ids[4]]);
    let mut descendants = Admin::new(&database.client).descendants([ids[1]]).await.unwrap();
    descendants.sort();
    assert_eq!(descendants, [ids[1], ids[3], ids[4], ids[5]]);
    for id in &ids[..4] {
        end(&database, *id, "completed").await;
    }
    assert_eq!(states(&database).await, "a completed, b completed, c completed, d completed, e cancelled, f available");
}

#[support::test]
async fn a_job_is_inserted_after_jobs_that_are_there(database: Database) {
    let first = database.client.insert(job("a")).await.unwrap();
    let second = database.client.insert(job("b").after(&first)).await.unwrap();
    database.client.insert(job("c")).after(first.id()).after_final(&[second.id()]).await.unwrap();
    database.client.insert(job("d").after(&[first.job.clone(), second.job])).await.unwrap();
    assert_eq!(
        states_at_end(&database, first.id(), "completed").await,
        "a completed, b available, c pending, d pending"
    );
}

#[support::test]
async fn keys_inside_a_graph_mean_their_holders(database: Database) {
    let key = || UniqueKey::raw("k");
    let holder = database.client.insert(job("a").unique_key(key())).await.unwrap().id();
    let twin = job("a").unique_key(key());
    let other = job("x");
    let folded = job("a").unique_key(key()).after(&other);
    let child = job("b").after(&folded);
    let inserted = database.client.insert_many([twin, other, folded, child]).await.unwrap();
    assert!(inserted[0].duplicate && inserted[2].duplicate);
    assert_eq!((inserted[0].id(), inserted[2].id()), (holder, holder));
    let parents = database.client.parents(inserted[3].id()).await.unwrap();
    assert_eq!(parents.iter().map(|parent| parent.id).collect::<Vec<_>>(), [holder]);
    assert_eq!(database.client.parents(holder).await.unwrap(), []);
    assert_eq!(end(&database, holder, "completed").await, 1);

    // The same where keys are settled one by one.
    let replacing = |kind: &str| job(kind).unique_key(UniqueKey::raw("r").on_conflict(OnConflict::Replace));
    let (first, second) = (replacing("r"), replacing("r"));
    let child = job("s").after(&first);
    let inserted = database.client.insert_many([first, child, second]).await.unwrap();
    settle(&database).await;
    let parents = database.client.parents(inserted[1].id()).await.unwrap();
    assert_eq!(parents[0].id, inserted[2].id());
}

#[support::test]
async fn the_parents_of_many_jobs_are_read_in_one_statement(database: Database) {
    let (one, two) = (job("a"), job("b"));
    let (of_both, of_one) = (job("c").after(&one).after_final(&two), job("d").after(&one));
    let ids: Vec<_> =
        database.client.insert_many([one, two, of_both, of_one]).await.unwrap().iter().map(|job| job.id()).collect();
    let (parents, sent) = counting_statements(async { database.client.parents_of(ids.clone()).await.unwrap() }).await;
    assert_eq!((parents.len(), sent), (2, 1));
    for child in &ids[2..] {
        assert_eq!(parents[child], database.client.parents(*child).await.unwrap());
    }
    assert_eq!(parents[&ids[2]].len(), 2);
}

#[support::test]
async fn parents_that_cannot_be_are_refused(database: Database) {
    let (first, second) = (job("a"), job("b"));
    let refused = async |jobs: Vec<NewJob>| database.client.insert_many(jobs).await.unwrap_err();
    let child = job("c").after(&second);
    let error = refused(vec![first.clone(), child.clone(), second.clone()]).await;
    assert_eq!(error.to_string(), "invalid after: must name an earlier job of the call: job 1 is after job 2");
    let error = refused(vec![first, child.clone()]).await;
    let problem = "invalid after: must name a job of the same call, or the id of one that is inserted: a parent of job 1 (\"c\") is not in it";
    assert_eq!(error.to_string(), problem);
    let error = refused(vec![second.clone(), second.clone(), child]).await;
    assert!(error.to_string().starts_with("invalid after: must name a job that is in the call once"), "{error}");
    let gone = uniqueue::JobId::from(uuid::Uuid::max());
    let error = database.client.insert(job("a").after(gone)).await.unwrap_err();
    assert!(matches!(error, Error::MissingParent { parent } if parent == gone), "{error}");
    let error = database.client.insert(job("a").after(gone).pending()).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid pending: must not stand together with after: true");
    assert_eq!(states(&database).await, "");
}

#[support::test]
async fn a_job_reads_the_outputs_of_its_parents(database: Database) {
    static SEEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let runner = database
        .runner()
        .queue("default", 4)
        .worker(|job: RunningJob<Count>| async move { Outcome::complete_with(job.args.number) })
        .worker(|job: RunningJob<Total>| async move {
            let numbers: Vec<u64> = job.outputs_of::<Count, _>().await?;
            SEEN.lock().unwrap().extend(&numbers);
            let all = job.parents().await?;
            assert_eq!(all.len(), numbers.len());
            Ok::<_, BoxError>(Outcome::complete_with(numbers.iter().sum::<u64>())?)
        });
    database.start(runner).await;
    let counts: Vec<_> = (1..=10).map(|number| NewJob::from(Count { number })).collect();
    let total = NewJob::from(Total {}).after(&counts);
    let inserted = database.client.insert_many(counts.into_iter().chain([total])).await.unwrap();
    let done = database.client.wait(inserted[10].id()).timeout(WAIT).await.unwrap();
    assert_eq!(done.job().unwrap().output_as::<u64>().unwrap(), Some(55));
    assert_eq!(*SEEN.lock().unwrap(), (1..=10).collect::<Vec<_>>());
    let outputs =
        format!("SELECT sum(output::text::bigint)::bigint FROM {{schema}}.parents_of('{}')", inserted[10].id());
    assert_eq!(database.number(&outputs).await, 55);
}

#[support::test]
async fn a_graph_is_cancelled_from_its_first_job_on(database: Database) {
    let first = job("a");
    let second = job("b").after_failed(&first);
    let inserted = database.client.insert_many([first, second]).await.unwrap();
    let cancel = format!("SELECT count(*) FROM {{schema}}.cancel_graph('{{{}}}')", inserted[0].id());
    assert_eq!(database.number(&cancel).await, 2);
}

#[support::test]
async fn a_job_as_json_names_its_parents_by_their_ids(database: Database) {
    let first = database.client.insert(job("a")).await.unwrap();
    let child = job("b").after(&first).after_final([&first]);
    let id = first.id().to_string();
    let expected = json!({"kind": "b", "args": {}, "after": [id], "after_final": [id]});
    assert_eq!(serde_json::to_value(&child).unwrap(), expected);
    let problem = serde_json::to_value(job("c").after(&child)).unwrap_err().to_string();
    assert!(problem.starts_with("after names a job that has no id yet"), "{problem}");
}

#[support::test]
async fn a_sleeping_releaser_is_notified_of_the_end_of_a_parent(database: Database) {
    database.start(database.runner().queue("unworked", 1).worker_for(["z"], |_| async {})).await;
    database.until("SELECT count(*) FROM {schema}.maintenance WHERE service = 'releaser' AND sleeps", 1).await;
    let mut listener = database.listen(&["control"]).await;
    let first = job("a");
    let second = job("b").after(&first);
    database.client.insert_many([first, second]).await.unwrap();
    // Inserted together, the parent is marked at once, and there is nothing to do yet.
    let end = "SELECT count(*) FROM {schema}.fetch_jobs('{default}', 'w') AS f, {schema}.complete_jobs(ARRAY[f.id], ARRAY[f.run])";
    assert_eq!(database.number(end).await, 1);
    let told = timeout(WAIT, listener.recv()).await.unwrap().unwrap();
    assert_eq!(told.payload(), "releaser");
    database.until("SELECT count(*) FROM {schema}.job WHERE kind = 'b' AND state = 'available'", 1).await;
}

/// Listens as a releaser does that sleeps.
async fn beside_a_sleeping_releaser(database: &Database) -> PgListener {
    let sleeping = "INSERT INTO {schema}.maintenance (service, holder, leased_until, sleeps)
        VALUES ('releaser', gen_random_uuid(), now() + interval '1 hour', true)
        ON CONFLICT (service) DO UPDATE SET leased_until = excluded.leased_until, sleeps = true";
    database.execute(sleeping).await;
    database.listen(&["control"]).await
}

#[support::test]
async fn each_way_in_which_a_parent_ends_notifies_a_sleeping_releaser(database: Database) {
    let mut listener = beside_a_sleeping_releaser(&database).await;
    let run = "WITH f AS MATERIALIZED (SELECT * FROM {schema}.fetch_jobs('{default}', 'w'))";
    for (way, policy, before, end) in [
        ("completed", "null", "", format!("{run} SELECT {{schema}}.complete_jobs(ARRAY[f.id], ARRAY[f.run]) FROM f")),
        (
            "discarded",
            "null",
            "",
            format!("{run} SELECT {{schema}}.finish_jobs(ARRAY[f.id], ARRAY[f.run], '{{discard}}', errors => '{{no}}') FROM f"),
        ),
        ("cancelled", "null", "", "SELECT {schema}.cancel_jobs(ARRAY['ID'::uuid])".to_owned()),
        (
            "expired",
            "null",
            "UPDATE {schema}.job SET expires_at = now() - interval '1 s' WHERE id = 'ID'",
            "SELECT {schema}._run_service('expirer')".to_owned(),
        ),
        (
            "replaced",
            r#"{"key": "r", "on_conflict": "replace"}"#,
            "",
            r#"SELECT {schema}.insert_job('b', unique_policy => '{"key": "r", "on_conflict": "replace"}', pending => true)"#
                .to_owned(),
        ),
        (
            "superseded",
            r#"{"key": "s", "states": ["available"], "on_reentry": "discard"}"#,
            "UPDATE {schema}.job SET state = 'retryable', scheduled_at = now() + interval '1 hour' WHERE id = 'ID';
             SELECT {schema}.insert_job('b', unique_policy => '{\"key\": \"s\"}', pending => true)",
            "SELECT {schema}.retry_jobs(ARRAY['ID'::uuid])".to_owned(),
        ),
        ("unreadable", "null", "", "SELECT {schema}._discard_unreadable('ID', 'damaged')".to_owned()),
    ] {
        let policy: Value = serde_json::from_str(policy).unwrap();
        let jobs = json!([{"kind": "a", "unique_policy": policy, "priority": 9}, after("child", &[0])]);
        let parent = insert(&database, jobs).await[0];
        for statement in before.split(";\n").filter(|statement| !statement.is_empty()) {
            database.execute(&statement.replace("ID", &parent.to_string())).await;
        }
        database.execute(&end.replace("ID", &parent.to_string())).await;
        let told = timeout(WAIT, listener.recv()).await.expect(way).unwrap();
        assert_eq!(told.payload(), "releaser", "{way}");
        let open = format!("SELECT count(*) FROM {{schema}}.job WHERE id = '{parent}' AND finalized_at IS NULL");
        assert_eq!(database.number(&open).await, 0, "{way}");
    }
}

#[support::test]
async fn a_parent_that_is_replaced_in_its_own_call_notifies_a_sleeping_releaser(database: Database) {
    let mut listener = beside_a_sleeping_releaser(&database).await;
    let policy = json!({"key": "k", "on_conflict": "replace"});
    let parent = json!({"kind": "a", "unique_policy": policy, "pending": true});
    insert(&database, json!([parent, after("child", &[0]), parent])).await;
    let told = timeout(WAIT, listener.recv()).await.unwrap().unwrap();
    assert_eq!(told.payload(), "releaser");
}

#[support::test]
async fn a_job_can_only_be_after_an_earlier_one_of_its_batch(database: Database) {
    let [x, y] = ["01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002"];
    for (jobs, problem) in [
        (json!([{"kind": "a", "after": [0]}]), "job 0: invalid after: must name an earlier job of the batch: 0"),
        (
            json!([{"kind": "a"}, {"kind": "b", "after": [0, 2]}, {"kind": "c"}]),
            "job 1: invalid after: must name an earlier job of the batch: 2",
        ),
        (
            json!([{"kind": "a", "after_final": [9]}]),
            "job 0: invalid after_final: must name an earlier job of the batch: 9",
        ),
        (
            json!([{"kind": "a", "id": x, "after": [y]}, {"kind": "b", "id": y, "after": [0]}]),
            "job 0: invalid after: must name an earlier job of the batch: 01890000-0000-7000-8000-000000000002",
        ),
        (
            json!([{"kind": "a", "id": x, "after": [x]}, {"kind": "b"}]),
            "job 0: invalid after: must name an earlier job of the batch: 01890000-0000-7000-8000-000000000001",
        ),
        (json!([{"kind": "a", "after": [-1]}]), "job 0: invalid after: must be indexes and ids: -1"),
        (json!([{"kind": "a", "after": ["a"]}]), "job 0: invalid after: must be indexes and ids: \"a\""),
        (json!([{"kind": "a", "after": [null]}]), "job 0: invalid after: must be indexes and ids: null"),
        (
            json!([{"kind": "a", "after_failed": 0}]),
            "job 0: invalid after_failed: must be an array of indexes and ids: 0",
        ),
        (
            json!([{"kind": "a"}, {"kind": "b", "after": [0], "pending": true}]),
            "job 1: invalid pending: not together with after",
        ),
    ] {
        assert_eq!(refusal(&database, jobs).await, ("22023".to_owned(), problem.to_owned()));
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

#[support::test]
async fn a_parent_that_is_not_there_is_named(database: Database) {
    let missing = "01890000-0000-7000-8000-000000000009";
    let expected = ("23503".to_owned(), format!("job 1: invalid after: there is no job {missing}"));
    let jobs = json!([{"kind": "a"}, {"kind": "b", "after": [0, missing]}]);
    assert_eq!(refusal(&database, jobs).await, expected);
    let alone = format!("SELECT id FROM {{schema}}.insert_job('a', after => '{{{missing}}}')");
    assert_eq!(database.refused(&alone).await.1, format!("invalid after: there is no job {missing}"));
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

#[support::test]
async fn a_job_that_replaces_its_own_parent_is_refused(database: Database) {
    let policy = |answer: &str| json!({"key": "k", "on_conflict": answer});
    try_insert(&database, json!([{"kind": "a", "unique_policy": policy("ignore")}])).await.unwrap();
    let jobs = json!([
        {"kind": "a", "unique_policy": policy("ignore")},
        {"kind": "a", "unique_policy": policy("replace"), "after": [0]},
    ]);
    let (code, problem) = refusal(&database, jobs).await;
    assert_eq!(code, "22023");
    assert_eq!(problem, "job 1: invalid after: a parent has the unique key of the job, and so is the same job");
}
