//! The expiry that an insert or a kind gives to a job, how it goes with unique keys, and with pending jobs, whose `expires_in`
//! has not begun.

use super::{fetched, pass};
use support::prelude::*;

#[derive(serde::Deserialize, serde::Serialize, uniqueue::Job)]
#[job(kind = "reminder", expires_in = "15m")]
struct Reminder {}

#[support::test]
async fn r21_expires_in_counts_from_when_the_job_is_due(database: Database, client: &Client) {
    let at = OffsetDateTime::now_utc() + 2 * HOUR;
    let jobs = [
        job("a").scheduled_in(HOUR).expires_in(HOUR),
        job("a").scheduled_in(HOUR).expires_in(HOUR).unique_key(UniqueKey::raw("k")),
        job("a").scheduled_at(at).expires_at(at + HOUR),
    ];
    for each in jobs.clone() {
        let one = client.insert(each).await.unwrap().job;
        assert_eq!(one.expires_at, Some(one.scheduled_at + HOUR));
        assert_eq!(database.row(one.id).await.expires_at, one.expires_at);
        client.delete([one.id]).await.unwrap();
    }
    for one in client.insert_many(jobs).await.unwrap() {
        assert_eq!(one.job.expires_at, Some(one.job.scheduled_at + HOUR));
        assert_eq!(database.row(one.id()).await.expires_at, one.job.expires_at);
    }
}

#[support::test]
async fn r21_a_kind_says_when_its_jobs_expire_and_an_insert_gives_it_up(database: Database) {
    database.execute("SELECT {schema}.register_kind('k', expires_in => '1 h')").await;
    let expiries =
        "SELECT string_agg(coalesce(date_trunc('minute', expires_at - created_at)::text, 'never'), ' ' ORDER BY id)
        FROM {schema}.job";
    for insert in [
        "SELECT {schema}.insert_job('k')",
        "SELECT {schema}.insert_job('k', expires_in => '2 h')",
        "SELECT {schema}.insert_job('k', expires_at => 'infinity')",
        "SELECT {schema}.insert_jobs('[{\"kind\": \"k\"}, {\"kind\": \"k\", \"expires_in\": \"PT3H\"}]')",
        "SELECT {schema}.insert_jobs('[{\"kind\": \"k\", \"expires_in\": null}, {\"kind\": \"k\", \"expires_at\": null}]')",
    ] {
        database.execute(insert).await;
    }
    assert_eq!(database.text(expiries).await, "01:00:00 02:00:00 never 01:00:00 03:00:00 never never");
    let filled = database.client.fill_in(job("k")).await.unwrap();
    assert_eq!(filled.clone().never_expires().expires_in(HOUR).kind(), "k");
    let inserted = database.client.insert(filled).await.unwrap().job;
    assert_eq!(inserted.expires_at, Some(inserted.created_at + HOUR));
}

#[support::test]
async fn r21_a_batch_of_another_driver_says_when_its_jobs_expire(database: Database) {
    let at = OffsetDateTime::from_unix_timestamp(4_000_000_000).unwrap();
    let jobs = [job("a").expires_at(at), job("b").expires_in(HOUR), job("c").never_expires()];
    let document = serde_json::to_string(&jobs).unwrap();
    let insert = database.sql("SELECT id FROM {schema}.insert_jobs($1::text::jsonb)");
    let ids: Vec<uuid::Uuid> = sqlx::query_scalar(insert).bind(document).fetch_all(database.pool()).await.unwrap();
    let [a, b, c] = [0, 1, 2].map(|n| database.row(ids[n].into()));
    let (a, b, c) = (a.await, b.await, c.await);
    assert_eq!((a.expires_at, b.expires_at, c.expires_at), (Some(at), Some(b.created_at + HOUR), None));
}

#[support::test]
async fn r21_an_invalid_expiry_is_an_error_that_names_it(database: Database, client: &Client) {
    let at = OffsetDateTime::UNIX_EPOCH + 100 * HOUR;
    for (job, problem) in [
        (job("a").expires_in(Duration::ZERO), "invalid expires_in: must be more than 0 and at most 100 years: 0ns"),
        (job("a").scheduled_at(at).expires_at(at), "invalid expires_at: must be after scheduled_at: "),
    ] {
        let error = client.insert(job).await.unwrap_err().to_string();
        assert!(error.starts_with(problem), "{error}");
    }
    for (insert, problem) in [
        (
            "insert_job('a', expires_in => '0')",
            "invalid expires_in: must be more than 0 and at most 100 years: 00:00:00",
        ),
        (
            "insert_job('a', expires_in => '1 s', expires_at => now())",
            "invalid expires_in: not together with expires_at",
        ),
        ("insert_job('a', expires_at => '-infinity')", "invalid expires_at: must be in the years 1 to 9000"),
        (
            "insert_jobs('[{\"kind\": \"a\", \"expires_in\": \"soon\"}]')",
            "job 0: invalid expires_in: must be an interval, such as 90s or PT15M: \"soon\"",
        ),
        (
            "insert_jobs('[{\"kind\": \"a\", \"expires_at\": \"soon\"}]')",
            "job 0: invalid expires_at: must be a time with its zone",
        ),
        ("insert_jobs('[{\"kind\": \"a\", \"expires_at\": 3}]')", "job 0: invalid expires_at: must be a string: 3"),
        ("register_kind('a', expires_in => '-1 s')", "invalid expires_in: must be more than 0"),
    ] {
        let (_, error) = database.refused(&format!("SELECT {{schema}}.{insert}")).await;
        assert!(error.starts_with(problem), "{insert}: {error}");
    }
}

#[support::test]
async fn r21_an_expiry_in_the_past_is_not_an_error_of_the_callers_transaction(database: Database) {
    for job in [job("a"), job("a").pending()] {
        let id = database.client.insert(job.expires_at(OffsetDateTime::now_utc() - HOUR)).await.unwrap().id();
        assert!(fetched(&database).await.is_empty());
        assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 1);
        assert_eq!(database.row(id).await.state, JobState::Discarded);
    }
}

#[support::test]
async fn r21_a_kind_in_rust_says_when_its_jobs_expire_and_registers_it(database: Database, client: &Client) {
    let quarter = Duration::from_secs(900);
    let one = client.insert(Reminder {}).await.unwrap().job;
    assert_eq!(one.expires_at, Some(one.scheduled_at + quarter));
    assert_eq!(client.insert(NewJob::from(Reminder {}).never_expires()).await.unwrap().job.expires_at, None);
    assert!(client.register::<Reminder>().await.unwrap());
    let kind = Admin::new(client).kind("reminder").await.unwrap().unwrap();
    assert_eq!(kind.expires_in, Some(quarter));
    database.execute("SELECT {schema}.insert_job('reminder')").await;
    let alike = "SELECT count(*) FROM {schema}.job WHERE expires_at = scheduled_at + interval '15 min'";
    assert_eq!(database.number(alike).await, 2);
}

#[support::test]
async fn r21_an_argument_and_a_member_read_expires_in_alike(database: Database) {
    let length = "extract(epoch FROM expires_at - scheduled_at)::bigint FROM {schema}.job WHERE id";
    for (text, seconds) in
        [("90s", 90), ("PT15M", 900), ("90 seconds", 90), ("1 day 02:00", 93_600), ("1 h 30 min", 5_400)]
    {
        for insert in [
            format!("insert_job('a', expires_in => '{text}')"),
            format!("insert_jobs('[{{\"kind\": \"a\", \"expires_in\": \"{text}\"}}]')"),
        ] {
            let id = database.text(&format!("SELECT id::text FROM {{schema}}.{insert}")).await;
            assert_eq!(database.number(&format!("SELECT {length} = '{id}'")).await, seconds, "{insert}");
        }
    }
}

#[support::test]
async fn r21_an_insert_never_meets_an_expired_holder(database: Database, client: &Client) {
    for on_conflict in OnConflict::ALL {
        if matches!(on_conflict, OnConflict::RunAgain) {
            continue;
        }
        let unique = || job("a").unique_key(UniqueKey::raw("k").on_conflict(on_conflict));
        let holder = client.insert(unique().expires_in(HOUR)).await.unwrap().id();
        pass(&database, holder).await;
        assert_eq!(client.explain(unique()).await.unwrap().outcome.as_str(), "inserted", "{on_conflict}");
        let newcomer = client.insert(unique()).await.unwrap();
        assert!(!newcomer.duplicate && newcomer.replaced.is_none(), "{on_conflict}: {newcomer:?}");
        let holder = database.row(holder).await;
        assert_eq!((holder.state, holder.errors.len()), (JobState::Discarded, 1), "{on_conflict}");
        client.cancel([newcomer.id()]).await.unwrap();
    }
    // In a batch, and where the claim outlasts the job.
    let exists = || job("a").unique_key(UniqueKey::raw("k").scope(UniqueScope::Exists));
    let holder = client.insert(exists().expires_in(HOUR)).await.unwrap().id();
    pass(&database, holder).await;
    let answers = client.insert_many([exists(), job("b")]).await.unwrap();
    assert!(answers[0].duplicate && answers[0].job.state == JobState::Discarded, "{answers:?}");
}

/// Inserters and the service meet an expired holder at once: one job of the key is inserted.
#[support::test(with_connections(30), flavor = "multi_thread", worker_threads = 4)]
async fn r21_one_of_many_inserts_takes_the_key_of_an_expired_job(database: Database) {
    let unique = || job("a").unique_key(UniqueKey::raw("k"));
    for _ in 0..5 {
        let holder = database.client.insert(unique().expires_in(HOUR)).await.unwrap().id();
        pass(&database, holder).await;
        let mut crowd = JoinSet::new();
        for _ in 0..12 {
            let client = database.client.clone();
            crowd.spawn(async move { client.insert(unique()).await.unwrap() });
        }
        let maintaining = database.number("SELECT expired FROM {schema}.maintain()");
        let (_, answers) = tokio::join!(maintaining, crowd.join_all());
        assert_eq!(answers.iter().filter(|answer| !answer.duplicate).count(), 1);
        assert_eq!(database.row(holder).await.state, JobState::Discarded);
        database.client.cancel([answers[0].id()]).await.unwrap();
    }
}

#[support::test]
async fn r21_a_job_that_stands_for_others_expires_when_the_last_of_them_does(database: Database, client: &Client) {
    let updating = || UniqueKey::raw("k").update(Update::merge());
    let covering = || UniqueKey::raw("k").scope(UniqueScope::Queued).on_conflict(OnConflict::RunAgain);
    let keys: [&dyn Fn() -> UniqueKey; 2] = [&updating, &covering];
    for key in keys {
        let insert = async |length: Option<Duration>| {
            let new = NewJob::new("a", &json!({"n": 1})).unique_key(key());
            let new = length.into_iter().fold(new, NewJob::expires_in);
            let id = client.insert(new).await.unwrap().id();
            let row = database.row(id).await;
            row.expires_at.map(|at| (at - row.created_at).whole_minutes())
        };
        assert_eq!(insert(Some(HOUR)).await, Some(60));
        assert_eq!(insert(Some(2 * HOUR)).await, Some(120));
        assert_eq!(insert(Some(HOUR)).await, Some(120));
        assert_eq!(insert(None).await, None);
        assert_eq!(insert(Some(HOUR)).await, None);
        database.execute("DELETE FROM {schema}.job").await;
        // In one batch.
        let jobs =
            [HOUR, 3 * HOUR, HOUR].map(|length| NewJob::new("a", &json!({})).unique_key(key()).expires_in(length));
        let answers = client.insert_many(jobs).await.unwrap();
        let stored = database.row(answers[0].id()).await;
        assert_eq!((stored.expires_at.unwrap() - stored.created_at).whole_minutes(), 180);
        database.execute("DELETE FROM {schema}.job").await;
    }
}

/// Whether the job expires an hour after it was released.
async fn counts_from_its_release(database: &Database, id: JobId) -> bool {
    // Its parent has taken two hours.
    let age = "UPDATE {schema}.job SET created_at = now() - interval '2 h', scheduled_at = now() - interval '2 h'";
    database.execute(age).await;
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 0);
    database.client.release([id]).await.unwrap();
    let now = database.row(id).await;
    now.state == JobState::Available && now.expires_at == Some(now.scheduled_at + HOUR)
}

#[support::test]
async fn r21_expires_in_of_a_pending_job_counts_from_its_release(database: Database, client: &Client) {
    let with_key = || job("a").pending().expires_in(HOUR).unique_key(UniqueKey::raw("k"));
    let updating = || with_key().unique_key(UniqueKey::raw("u").update(Update::merge()));
    let batch = [job("a").pending().expires_in(HOUR), job("a").pending().expires_in(HOUR)];
    let keyed_batch = [with_key().unique_key(UniqueKey::raw("l")), job("a")];
    let mut inserted = vec![
        client.insert(job("a").pending().expires_in(HOUR)).await.unwrap().job,
        client.insert(with_key()).await.unwrap().job,
        client.insert(updating()).await.unwrap().job,
    ];
    inserted.extend(client.insert_many(batch).await.unwrap().into_iter().map(|one| one.job));
    inserted.push(client.insert_many(keyed_batch).await.unwrap().remove(0).job);
    for one in inserted {
        assert_eq!(one.expires_at, None);
        assert_eq!(database.row(one.id).await.expires_at, None);
        assert!(counts_from_its_release(&database, one.id).await);
    }
}

#[support::test]
async fn r21_expires_in_of_a_child_counts_from_when_its_parents_have_ended(database: Database) {
    database.execute("SELECT {schema}.register_kind('brief', expires_in => '1 h')").await;
    let parent = database.client.insert(job("parent")).await.unwrap().id();
    for insert in [
        format!("SELECT id::text FROM {{schema}}.insert_job('brief', after => '{{{parent}}}')"),
        format!("SELECT id::text FROM {{schema}}.insert_job('b', expires_in => '1 h', after => '{{{parent}}}')"),
        format!("SELECT id::text FROM {{schema}}.insert_jobs('[{{\"kind\": \"brief\", \"after\": [\"{parent}\"]}}]')"),
    ] {
        let id = database.text(&insert).await.parse().unwrap();
        assert!(counts_from_its_release(&database, id).await, "{insert}");
    }
    // A child that is due later expires after that.
    let late = job("late").after(parent).scheduled_in(HOUR).expires_in(HOUR);
    let late = database.client.insert(late).await.unwrap().id();
    database.set_state(parent, "completed").await;
    database.execute("SELECT FROM {schema}._release_step(100, NULL, NULL, NULL)").await;
    let row = database.row(late).await;
    assert_eq!((row.state, row.expires_at), (JobState::Scheduled, Some(row.scheduled_at + HOUR)));
}

#[support::test]
async fn r21_a_pending_job_that_stands_for_others_expires_no_sooner_than_they_would(database: Database) {
    let keys = [UniqueKey::raw("u").update(Update::merge()), UniqueKey::raw("r").on_conflict(OnConflict::RunAgain)];
    for key in keys {
        let new = || NewJob::new("a", &json!({"n": 1})).pending().unique_key(key.clone());
        let id = database.client.insert(new().expires_in(HOUR / 2)).await.unwrap().id();
        assert_eq!(database.client.insert(new().expires_in(HOUR)).await.unwrap().id(), id);
        assert!(counts_from_its_release(&database, id).await);
        let other = database.client.delete([id]).await.unwrap();
        assert_eq!(other, [id]);
        let id = database.client.insert(new().expires_in(HOUR)).await.unwrap().id();
        database.client.insert(new()).await.unwrap();
        database.client.release([id]).await.unwrap();
        assert_eq!(database.row(id).await.expires_at, None);
        database.client.delete([id]).await.unwrap();
    }
}
