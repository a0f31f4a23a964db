//! `insert_job` and `release_claim`: what they do to jobs.

use super::{insert, told};
use support::prelude::*;

#[support::test]
async fn a_job_has_the_defaults_of_rust(database: Database) {
    let by_sql = insert(&database, "'email.send'").await.unwrap();
    assert_eq!(
        (by_sql.state.as_str(), by_sql.duplicate, by_sql.replaced, by_sql.unique_key),
        ("available", false, None, None)
    );
    assert_eq!(by_sql.id.get_version_num(), 7);
    database.client.insert(job("email.send")).await.unwrap();
    let kinds = "SELECT count(DISTINCT to_jsonb(j) - '{id,created_at,scheduled_at}'::text[]) FROM {schema}.job AS j";
    assert_eq!(database.number(kinds).await, 1);
}

#[support::test]
async fn every_argument_is_stored(database: Database) {
    let id = Uuid::now_v7();
    let arguments = format!(
        "'k', args => '[{{\"a\": 1}}, 2]', queue => 'q', meta => '{{\"tenant\": \"acme\"}}', priority => -7,
         max_attempts => 3, scheduled_at => '2999-01-01 00:00:00+00', id => '{id}',
         unique_policy => '{{\"key\": \"k1\", \"ttl\": \"PT90S\", \"until\": \"start\", \"on_reentry\": \"discard\", \"states\": [\"scheduled\"]}}'"
    );
    let answer = insert(&database, &arguments).await.unwrap();
    assert_eq!((answer.id, answer.state.as_str(), answer.unique_key.as_deref()), (id, "scheduled", Some("k1")));
    let stored = database.client.job(JobId::from(id)).await.unwrap().unwrap();
    assert_eq!(stored.args.get(), r#"[{"a": 1}, 2]"#);
    assert_eq!((stored.queue.as_str(), stored.priority, stored.max_attempts), ("q", -7, 3));
    assert_eq!(stored.meta["tenant"], "acme");
    assert_eq!(stored.unique_states.unwrap().to_string(), "scheduled");
    assert_eq!(stored.unique_until, Some(stored.scheduled_at + Duration::from_secs(90)));
    let terms = "SELECT count(*) FROM {schema}.job WHERE until_start AND discard_on_reentry";
    assert_eq!(database.number(terms).await, 1);
}

#[support::test]
async fn new_ids_are_uuids_of_version_7_and_follow_the_clock(database: Database) {
    let in_order = "SELECT (array_agg(i.id ORDER BY i.n) = array_agg(i.id ORDER BY i.id))::int::bigint
        FROM (SELECT n, {schema}.new_job_id() AS id FROM generate_series(1, 2000) AS n) AS i";
    // Two in one microsecond have no order; the next thousand will not all meet again.
    let mut is_in_order = false;
    for _ in 0..20 {
        is_in_order |= database.number(in_order).await == 1;
    }
    let age = "SELECT abs(extract(epoch FROM clock_timestamp()) * 1000
        - ('x' || substr(replace({schema}.new_job_id()::text, '-', ''), 1, 12))::bit(48)::bigint)::bigint";
    assert!(database.number(age).await < 1000);
    let forms = "SELECT count(*) FROM generate_series(1, 1000)
        WHERE {schema}.new_job_id()::text !~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'";
    assert_eq!(database.number(forms).await, 0);
    assert!(is_in_order);
}

#[support::test]
async fn an_insert_waits_for_an_open_rival_as_long_as_lock_timeout_lets_it(database: Database) {
    let insert = database.sql("SELECT duplicate FROM {schema}.insert_job('a', unique_policy => '{}')");
    let mut rival = database.pool().begin().await.unwrap();
    sqlx::query(insert.clone()).execute(&mut *rival).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    sqlx::raw_sql("SET LOCAL lock_timeout = '20ms'; SAVEPOINT before").execute(&mut *tx).await.unwrap();
    let error = sqlx::query(insert.clone()).execute(&mut *tx).await.unwrap_err();
    assert_eq!(error.as_database_error().and_then(|error| error.code()).as_deref(), Some("55P03"), "{error}");
    sqlx::raw_sql("ROLLBACK TO before; SET LOCAL lock_timeout = 0").execute(&mut *tx).await.unwrap();
    rival.commit().await.unwrap();
    assert!(sqlx::query_scalar::<_, bool>(insert).fetch_one(&mut *tx).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 1);
}

#[support::test]
async fn reject_is_error_23505_with_the_holder_in_detail(database: Database) {
    let holder = insert(&database, "'a', unique_policy => '{}'").await.unwrap();
    let refused = "'a', unique_policy => '{\"on_conflict\": \"reject\"}'";
    let error = insert(&database, refused).await.unwrap_err();
    let (code, message, detail) = told(&error);
    assert_eq!(code, "23505");
    assert_eq!(message, format!("duplicate: the unique key is held by job {} (available)", holder.id));
    assert_eq!(detail, format!("{{\"holder\": \"{}\", \"state\": \"available\"}}", holder.id));
    assert_eq!(error.as_database_error().unwrap().constraint(), Some("job_unique_key"));
    assert_eq!(error.as_database_error().unwrap().table(), Some("job"));

    // Within a savepoint the caller's transaction goes on.
    let mut transaction = database.pool().begin().await.unwrap();
    for text in ["SAVEPOINT s", "SELECT {schema}.insert_job('a', unique_policy => '{\"on_conflict\": \"reject\"}')"] {
        let done = sqlx::query(database.sql(text)).execute(&mut *transaction).await;
        assert_eq!(done.is_err(), text.starts_with("SELECT"));
    }
    for text in ["ROLLBACK TO s", "SELECT {schema}.insert_job('b')"] {
        sqlx::query(database.sql(text)).execute(&mut *transaction).await.unwrap();
    }
    transaction.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 2);
}

#[support::test]
async fn without_scheduled_at_the_window_is_that_of_now(database: Database) {
    let now = "'a', unique_policy => '{\"window\": \"P36525D\"}'";
    assert!(!insert(&database, now).await.unwrap().duplicate);
    assert!(insert(&database, now).await.unwrap().duplicate);
}

#[support::test]
async fn the_same_id_again_answers_with_the_job_that_is_there_or_names_both(database: Database) {
    let id = Uuid::now_v7();
    for policy in ["NULL", "'{}'", "'{\"on_conflict\": \"reject\"}'"] {
        let answer = insert(&database, &format!("'a', id => '{id}', unique_policy => {policy}")).await.unwrap();
        assert_eq!((answer.id, answer.duplicate), (id, false));
    }
    let (code, message, _) = told(&insert(&database, &format!("'b', id => '{id}'")).await.unwrap_err());
    assert_eq!(code, "23505");
    assert!(message.starts_with(&format!("id {id} belongs to another job: of kind \"a\"")), "{message}");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 1);
}

#[support::test]
async fn every_argument_out_of_its_limits_is_named(database: Database) {
    let long = "x".repeat(129);
    for (arguments, message) in [
        ("NULL", "invalid kind: must not be null"),
        ("''", "invalid kind: must not be empty: \"\""),
        ("E'a\\tb'", "invalid kind: must not hold control characters: \"a\\tb\""),
        ("E'a\\u0085'", "invalid kind: must not hold control characters: \"a\u{85}\""),
        (&format!("'{long}'"), &format!("invalid kind: must not be longer than 128 bytes: \"{long}\"")),
        ("'k', queue => ''", "invalid queue: must not be empty: \"\""),
        (
            "'k', queue => repeat('é', 65)",
            &format!("invalid queue: must not be longer than 128 bytes: \"{}\"", "é".repeat(65)),
        ),
        ("'k', args => NULL", "invalid args of \"k\": must not be null"),
        ("'k', meta => '[]'", "invalid meta of \"k\": must be an object: []"),
        ("'k', meta => '{\"a\": 1e309}'", "invalid meta of \"k\": the number is out of range: \"beyond 1.8e308\""),
        ("'k', priority => 32768", "invalid priority: must be -32768 to 32767: 32768"),
        ("'k', max_attempts => 0", "invalid max_attempts: must be 1 to 32767: 0"),
        ("'k', max_attempts => 40000", "invalid max_attempts: must be 1 to 32767: 40000"),
        ("'k', scheduled_at => 'infinity'", "invalid scheduled_at: must be in the years 1 to 9000: infinity"),
        ("'k', scheduled_at => '-infinity'", "invalid scheduled_at: must be in the years 1 to 9000: -infinity"),
        (
            "'k', scheduled_at => '9001-01-01 00:00Z'",
            "invalid scheduled_at: must be in the years 1 to 9000: 9001-01-01 00:00:00+00",
        ),
    ] {
        let mut connection = database.pool().acquire().await.unwrap();
        sqlx::query("SET timezone = 'UTC'").execute(&mut *connection).await.unwrap();
        for function in ["insert_job", "explain_unique"] {
            let text = format!("SELECT * FROM {{schema}}.{function}({arguments})");
            let error = sqlx::query(database.sql(&text)).fetch_one(&mut *connection).await.expect_err(arguments);
            let (code, found, _) = told(&error);
            assert_eq!((code.as_str(), found.as_str()), ("22023", message), "{arguments}");
        }
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

/// A snapshot with many subtransactions slows all sessions down.
#[support::test]
async fn jobs_that_ignore_duplicates_take_no_subtransaction_each(database: Database) {
    let policy = r#"'{"keys": ["args"], "ttl": "PT1H"}'"#;
    for policy in ["NULL", policy] {
        let insert = format!(
            "SELECT count(*) FROM generate_series(1, 100) AS g (n)
            CROSS JOIN LATERAL {{schema}}.insert_job('a', to_jsonb(n), unique_policy => {policy}) AS i
            WHERE NOT i.duplicate AND i.state = 'available'"
        );
        assert_eq!(database.number(&insert).await, 100);
    }
    let writers = "SELECT count(DISTINCT xmin::text) FROM {schema}.job";
    assert_eq!(database.number(writers).await, 2);
}

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "mail", queue = "emails", priority = -3, max_attempts = 4, unique(queue, period = "PT1H"))]
struct Mail {
    #[job(unique)]
    to: String,
    #[job(unique)]
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<String>,
    amount: f64,
}

fn mail(copy: Option<&str>) -> Mail {
    Mail { to: "ada@example.com".into(), copy: copy.map(str::to_owned), amount: 0.1 }
}

/// Jobs with every option, each with a key of its own.
fn jobs() -> Vec<NewJob> {
    let hour = Duration::from_secs(3600);
    let later = time::macros::datetime!(2999-01-02 03:04:05.678901 UTC);
    let key = UniqueKey::raw("a \"raw\" key").ttl(hour).until_start().on_reentry(OnReentry::Discard);
    let args = json!({"tenant": 7, "order": {"id": 12_345_678_901_234_567_890_u64, "text": "é \\ \u{1F980}"}});
    let args = || NewJob::new("order", &args);
    let by_part = UniquePolicy::new().by_arg_fields(["/order/id"]).by_meta(["tenant"]).exclude_kind();
    vec![
        NewJob::from(mail(None)),
        NewJob::from(mail(Some("bob@example.com"))).queue("bulk").priority(9).meta("trace", "x"),
        args(),
        args().id(JobId::from(Uuid::now_v7())).pending(),
        args().unique_key(key),
        args().unique(by_part.on_conflict(OnConflict::Replace)).meta("tenant", json!([1, null])),
        args().unique(UniquePolicy::new().by_args().window(hour).scope(UniqueScope::Exists)).scheduled_at(later),
        args().unique(UniquePolicy::river().by_args()),
        args().unique(UniquePolicy::river()),
        args().unique(UniquePolicy::faktory(hour)).max_attempts(1),
        args().unique(UniquePolicy::zizq()),
    ]
}

/// What the insert decides of a row.
fn decided(row: &JobRow) -> impl PartialEq + std::fmt::Debug + use<> {
    let claims_for = row.unique_until.map(|until| until - row.created_at.max(row.scheduled_at));
    let is_later = row.scheduled_at > row.created_at;
    (
        (row.kind.to_string(), row.queue.to_string(), row.args.get().to_owned(), row.meta.clone()),
        (row.priority, row.max_attempts, row.state, is_later.then_some(row.scheduled_at)),
        (row.unique_key.clone(), row.unique_states, claims_for),
    )
}

#[tokio::test]
async fn a_job_that_is_inserted_as_json_is_the_one_that_the_client_inserts() {
    let [by_client, by_json] = [Database::new().await, Database::new().await];
    let text = serde_json::to_string(&jobs()).unwrap();
    let insert = by_json.sql("SELECT id FROM {schema}.insert_jobs($1::text::jsonb) ORDER BY index");
    let ids: Vec<Uuid> = sqlx::query_scalar(insert).bind(&text).fetch_all(by_json.pool()).await.unwrap();
    let inserted = by_client.client.insert_many(jobs()).await.unwrap();
    assert_eq!(ids.len(), inserted.len());
    for (id, inserted) in ids.into_iter().zip(&inserted) {
        let row = by_json.client.job(JobId::from(id)).await.unwrap().unwrap();
        assert_eq!(decided(&row), decided(&inserted.job));
    }
    // Each meets the other's key.
    let unique: Vec<NewJob> = [0, 4, 7, 9].into_iter().map(|place| jobs().swap_remove(place)).collect();
    for (job, place) in unique.into_iter().zip([0, 4, 7, 9]) {
        let met = by_json.client.insert(job).await;
        match met {
            Ok(met) => assert!(met.duplicate, "job {place}"),
            Err(error) => assert_eq!(error.rejections().len(), 1, "job {place}: {error}"),
        }
    }
}

#[test]
fn what_sql_cannot_say_is_an_error() {
    let delayed = NewJob::new("a", &json!({})).scheduled_in(Duration::from_secs(5));
    let error = serde_json::to_string(&delayed).unwrap_err().to_string();
    assert_eq!(error, "scheduled_in needs the database's clock: 5s; hint: give scheduled_at instead");
    let invalid = NewJob::new("a", &json!({})).unique(UniquePolicy::new().window(Duration::from_millis(1)));
    assert!(serde_json::to_string(&invalid).is_err());
}
