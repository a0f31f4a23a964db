//! Bad input: each case is a typed error with the value and the remedy, and changes nothing.

use support::prelude::*;
use support::url;

#[support::test]
async fn bad_names_keys_and_options_are_typed_errors_and_nothing_is_inserted(database: Database) {
    let long = "x".repeat(129);
    let cases: Vec<(NewJob, String)> = vec![
        (job(""), "invalid kind: must not be empty: \"\"".into()),
        (job(&long), format!("invalid kind: must not be longer than 128 bytes: {long:?}")),
        (job("a\0b"), "invalid kind: must not hold control characters: \"a\\0b\"".into()),
        (job("a").queue(""), "invalid queue: must not be empty: \"\"".into()),
        (job("a").queue(long.clone()), format!("invalid queue: must not be longer than 128 bytes: {long:?}")),
        (job("a").max_attempts(0), "invalid max_attempts: must be 1 to 32767: 0".into()),
        (job("a").max_attempts(40_000), "invalid max_attempts: must be 1 to 32767: 40000".into()),
        (job("a").unique_key(UniqueKey::raw("")), "invalid unique key".into()),
        (job("a").unique_key(UniqueKey::raw("k\0")), "invalid unique key".into()),
        (job("a").unique_key(UniqueKey::raw("k".repeat(513))), "invalid unique key".into()),
        (NewJob::new("a", &HashMap::from([((1, 2), 3)])), "invalid args of \"a\": key must be a string".into()),
        (NewJob::new("a", &json!({"x": "nul \0"})), "invalid args of \"a\": PostgreSQL cannot store".into()),
        (job("a").meta("x", "nul \0"), "invalid meta of \"a\": PostgreSQL cannot store".into()),
        (job("a").scheduled_in(Duration::MAX), "invalid scheduled_in: must not be longer than 100 years".into()),
        (
            job("a").scheduled_at(datetime!(9999-12-31 0:00 UTC)),
            "invalid scheduled_at: must be in the years 1 to 9000: 9999-12-31".into(),
        ),
        // The year is that of UTC, as for insert_job.
        (
            job("a").scheduled_at(datetime!(9000-12-31 23:00 -2)),
            "invalid scheduled_at: must be in the years 1 to 9000: 9000-12-31".into(),
        ),
        (
            job("a").scheduled_at(datetime!(9999-12-31 23:00 -2)),
            "invalid scheduled_at: must be in the years 1 to 9000: 9999-12-31".into(),
        ),
        (raw(&nested(128)), too_deep("args")),
        (raw(&nested(128)).unique(UniquePolicy::new().by_args()), too_deep("args")),
        (raw(&nested(100_000)), too_deep("args")),
        (job("a").meta("x", value(&nested(127))), too_deep("meta")),
        (
            raw(r#"{"a":1e400}"#).unique(UniquePolicy::new().by_args()),
            "invalid unique key: a double cannot hold the number, make it a string: \"1e+400\"".into(),
        ),
        (
            NewJob::new("a", &u128::MAX).unique(UniquePolicy::new().by_args()),
            format!("invalid unique key: a double cannot hold the number, make it a string: \"{}\"", u128::MAX),
        ),
    ];
    for (bad, said) in cases {
        // Alone, and in the middle of a batch: all or nothing.
        let error = database.client.insert(bad.clone()).await.unwrap_err();
        assert!(error.to_string().starts_with(&said), "{error}\nnot: {said}");
        assert!(!matches!(error, Error::Database(_)), "{error:?}");
        let error = database.client.insert_many([job("good"), bad, job("good")]).await.unwrap_err();
        assert!(error.to_string().starts_with(&said), "{error}");
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
    let key = "k".repeat(512);
    assert!(!database.client.insert(job("a").unique_key(UniqueKey::raw(&key))).await.unwrap().duplicate);
    assert!(database.client.insert(job("a").unique_key(UniqueKey::raw(&key))).await.unwrap().duplicate);
}

/// What the database would refuse by itself, without saying where.
#[support::test]
async fn json_that_jsonb_cannot_hold_is_named_with_its_place(database: Database) {
    let surrogate = "invalid args of \"a\": PostgreSQL cannot store half of a surrogate pair at byte 6: \\ud800";
    let number =
        "invalid args of \"a\": PostgreSQL cannot store a number with more digits than numeric holds at byte 5: ";
    for (args, said) in [
        (r#"{"a":"\ud800"}"#.to_owned(), surrogate.to_owned()),
        (r#"{"a":1e200000}"#.to_owned(), format!("{number}1e200000")),
        (r#"{"a":1e-16384}"#.to_owned(), format!("{number}1e-16384")),
        (format!(r#"{{"a":1{}}}"#, "0".repeat(131_072)), format!("{number}1{}", "0".repeat(39))),
    ] {
        for bad in [raw(&args), raw(&args).unique(UniquePolicy::new().by_args())] {
            let error = database.client.insert(bad.clone()).await.unwrap_err();
            assert!(matches!(error, Error::InvalidJson { .. }), "{error:?}");
            assert_eq!(error.to_string(), said);
            assert_eq!(database.client.insert_many([job("a"), bad]).await.unwrap_err().to_string(), said);
        }
        // The database agrees.
        let inserting =
            database.sql("INSERT INTO {schema}.job (id, kind, args) VALUES (gen_random_uuid(), 'a', $1::text::jsonb)");
        sqlx::query(inserting).bind(&args).execute(database.pool()).await.unwrap_err();
    }
    for fits in [r#"{"a":"\ud83d\ude00"}"#, r#"{"a":1e131071}"#, r#"{"a":1e-16383}"#] {
        database.client.insert(raw(fits)).await.unwrap();
    }
}

#[support::test]
async fn what_nests_as_deep_as_it_may_is_stored_and_read_back(database: Database) {
    let deepest = raw(&nested(127)).meta("x", value(&nested(126))).unique_key(UniqueKey::raw("k"));
    let inserted = database.client.insert(deepest.clone()).await.unwrap();
    assert!(database.client.insert(deepest).await.unwrap().duplicate);
    let row = database.client.job(inserted.id()).await.unwrap().unwrap();
    assert_eq!((row.args.get(), &row.meta["x"]), (&*nested(127), &value(&nested(126))));
}

#[support::test]
async fn meta_is_limited_to_a_mebibyte_of_json_text_in_rust_and_in_sql(database: Database) {
    let with = |bytes: usize| job("a").meta("x", "x".repeat(bytes - 8));
    database.client.insert(with(1 << 20)).await.unwrap();
    let error = database.client.insert(with((1 << 20) + 1)).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid meta of \"a\": longer than 1048576 bytes: 1048577 bytes");
    for pad in ["repeat('x', 2000000)", "repeat(E'\\x01', 190000000)"] {
        let insert =
            format!("SELECT id::text FROM {{schema}}.insert_job('a', meta => jsonb_build_object('pad', {pad}))");
        let insert = sqlx::raw_sql(database.sql(&insert)).execute(database.pool()).await;
        let error = insert.unwrap_err().to_string();
        assert!(error.contains("invalid meta of \"a\": longer than 1048576 bytes"), "{error}");
    }
}

#[support::test]
async fn args_are_limited_by_the_bytes_of_their_json_text_in_rust_and_in_sql(database: Database, client: &Client) {
    let text = |bytes: usize| raw(&format!("\"{}\"", "x".repeat(bytes - 2)));
    client.insert(text(1 << 20)).await.unwrap();
    let error = client.insert(text((1 << 20) + 1)).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid args of \"a\": longer than 1048576 bytes: 1048577 bytes");
    let small = database.builder().max_args_bytes(10).pool(database.pool().clone());
    small.insert(text(10)).await.unwrap();
    let error = small.insert_many([text(10), text(11)]).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid args of \"a\": longer than 10 bytes: 11 bytes");

    let mut connection = database.pool().acquire().await.unwrap();
    insert_in_sql(&database, &mut connection, "to_jsonb(repeat('x', 1048574))").await.unwrap();
    let error = insert_in_sql(&database, &mut connection, "to_jsonb(repeat('x', 1048575))").await.unwrap_err();
    assert!(error.contains("invalid args of \"a\": longer than 1048576 bytes: 1048577 bytes"), "{error}");
    // Its text would have more bytes than PostgreSQL can hold.
    let error = insert_in_sql(&database, &mut connection, "jsonb_build_object('pad', repeat(E'\\x01', 190000000))")
        .await
        .unwrap_err();
    assert!(error.contains("invalid args of \"a\": longer than 1048576 bytes: 1900000"), "{error}");
    sqlx::raw_sql("SET uniqueue.max_args_bytes = 10").execute(&mut *connection).await.unwrap();
    insert_in_sql(&database, &mut connection, "to_jsonb(repeat('x', 8))").await.unwrap();
    assert!(
        insert_in_sql(&database, &mut connection, "to_jsonb(repeat('x', 9))")
            .await
            .unwrap_err()
            .contains("longer than 10 bytes: 11 bytes")
    );
    connection.close().await.unwrap();
}

async fn insert_in_sql(database: &Database, connection: &mut PgConnection, args: &str) -> Result<(), String> {
    let insert = database.sql(&format!("SELECT {{schema}}.insert_job('a', {args})"));
    sqlx::query(insert).execute(connection).await.map(drop).map_err(|error| error.to_string())
}

/// Arrays within each other.
fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

fn raw(args: &str) -> NewJob {
    NewJob::from_json("a", RawValue::from_string(args.to_owned()).unwrap())
}

fn too_deep(what: &str) -> String {
    format!("invalid {what} of \"a\": values nest too deeply: \"more than 127 levels\"")
}

#[support::test]
async fn the_database_refuses_what_goes_around_the_library(database: Database) {
    for bad in [
        "(id, kind) VALUES (gen_random_uuid(), '')",
        "(id, kind, queue) VALUES (gen_random_uuid(), 'a', '')",
        "(id, kind, attempt) VALUES (gen_random_uuid(), 'a', -1)",
        "(id, kind, max_attempts) VALUES (gen_random_uuid(), 'a', 0)",
        "(id, kind, unique_key) VALUES (gen_random_uuid(), 'a', 'k')",
        "(id, kind, unique_key, unique_states) VALUES (gen_random_uuid(), 'a', '', 1)",
        "(id, kind, unique_key, unique_states) VALUES (gen_random_uuid(), 'a', 'k', 256)",
        "(id, kind, state) VALUES (gen_random_uuid(), 'a', 'completed')",
        "(id, kind, state) VALUES (gen_random_uuid(), 'a', 'running')",
        "(id, kind, meta) VALUES (gen_random_uuid(), 'a', '[]')",
    ] {
        let (code, error) = database.refused(&format!("INSERT INTO {{schema}}.job {bad}")).await;
        // A check, or a column that must not be null.
        assert!(matches!(&*code, "23514" | "23502"), "{bad}: {error}");
    }
}

#[support::test(unmigrated(2))]
async fn a_schema_that_is_not_migrated_says_what_to_run(database: Database) {
    let error = database.client.check_schema().await.unwrap_err();
    assert!(error.to_string().contains("hint: run `uniqueue migrate --schema test_"), "{error}");
    for unmigrated in [job("a"), job("a").unique_key(UniqueKey::raw("k"))] {
        let error = database.client.insert(unmigrated).await.unwrap_err();
        assert!(error.to_string().contains("hint: is the schema migrated?"), "{error}");
    }
    let behind = Database::new().await;
    let latest = "(SELECT max(version) FROM {schema}.schema_history)";
    behind.execute(&format!("DELETE FROM {{schema}}.schema_history WHERE version = {latest}")).await;
    let error = behind.client.check_schema().await.unwrap_err();
    assert!(
        error.to_string().starts_with(&format!("schema {} is behind: it is at version ", behind.schema)),
        "{error}"
    );
}

#[tokio::test]
async fn a_wrong_url_is_an_error_without_the_password() {
    for bad in ["", "localhost", "mysql://user:secret@localhost/db", "postgres://user:secret@localhost:port/db"] {
        let error = Client::connect(bad).await.unwrap_err();
        assert!(matches!(error, Error::InvalidUrl { .. }), "{bad}: {error:?}");
        assert!(error.to_string().contains("hint: postgres://"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn no_part_of_a_password_that_is_not_encoded_is_in_an_error() {
    for password in
        ["p@S3/xyz", "S3/xyz", "S3?xyz", "S3#xyz", "5432/xyz", "5432?xyz", "5432#xyz@S3", "p@S3?sslmode=xyz"]
    {
        let error = Client::connect(&format!("postgres://ada:{password}@db.invalid/app")).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(matches!(error, Error::InvalidUrl { .. }), "{password}: {text}");
        assert!(!["S3", "s3", "xyz"].iter().any(|part| text.contains(part)), "{password}: {text}");
    }
}

#[tokio::test]
async fn a_database_that_is_down_is_an_error_with_a_hint_and_retryable() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = Client::connect(&format!("postgres://nobody@127.0.0.1:{port}/app")).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("hint: is PostgreSQL running"), "{error}");
    let options: PgConnectOptions = format!("postgres://nobody@127.0.0.1:{port}/app").parse().unwrap();
    let pool: PgPool = PgPoolOptions::new().acquire_timeout(Duration::from_millis(200)).connect_lazy_with(options);
    let error = Client::new(pool).insert(job("a")).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
}

#[support::test]
async fn a_server_that_takes_no_writes_and_one_that_ended_an_idle_transaction_are_retryable(database: Database) {
    let mut tx = database.pool().begin().await.unwrap();
    sqlx::query("SET TRANSACTION READ ONLY").execute(&mut *tx).await.unwrap();
    let error = database.client.insert(job("a")).tx(&mut tx).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    drop(tx);
    let mut tx = database.pool().begin().await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *tx).await.unwrap();
    sqlx::query("SET idle_in_transaction_session_timeout = '1ms'").execute(&mut *tx).await.unwrap();
    database.until(&format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}"), 0).await;
    let error = database.client.insert(job("a")).tx(&mut tx).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
}

#[tokio::test]
async fn a_database_that_does_not_exist_says_so() {
    let absent = url().await.replace("/postgres?", "/absent?");
    let error = Client::connect(&absent).await.unwrap_err();
    assert!(error.to_string().contains("hint: create the database first"), "{error}");
}

#[support::test]
async fn what_the_server_says_is_told_without_the_line_of_its_source(database: Database) {
    database.execute("DROP FUNCTION {schema}.release_claim(text)").await;
    let error = database.client.release_claim("k").await.unwrap_err();
    let said = format!(
        "error returned from database: function {}.release_claim(text) does not exist; hint: ",
        database.schema
    );
    assert!(error.to_string().starts_with(&said), "{error}");
    // The source has the whole text.
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<sqlx::Error>()).unwrap();
    assert_eq!(cause.as_database_error().and_then(|error| error.code()).as_deref(), Some("42883"));
}

#[support::test(unmigrated(2))]
async fn no_permission_to_create_the_schema_is_an_error_with_the_remedy(database: Database) {
    let role = database.name_of("role");
    database.execute(&format!("CREATE ROLE {role} LOGIN")).await;
    let client = database.client_with(1, |options| options.username(&role)).await;
    let error = client.migrate().await.unwrap_err();
    assert!(matches!(error, Error::Migration { .. }), "{error:?}");
    assert!(error.to_string().contains("hint: let a role that may create schemas"), "{error}");
    assert!(!error.to_string().contains(" at line "), "{error}");
    assert_eq!(database.number("SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'").await, 0);
}

#[support::test]
async fn nothing_can_be_smuggled_in_through_names(database: Database) {
    let evil = "'; DROP TABLE job; --";
    let inserted = database.client.insert(job(evil).queue(evil).unique_key(UniqueKey::raw(evil))).await.unwrap();
    assert_eq!(inserted.job.kind.as_str(), evil);
    assert_eq!(database.client.holder(evil).await.unwrap().unwrap().id, inserted.id());
}

#[support::test]
async fn what_can_never_work_is_an_error_that_names_the_member_in_rust_and_in_sql(database: Database, client: &Client) {
    let queued = |update| UniqueKey::raw("k").scope(UniqueScope::Queued).update(update);
    let append = |args: Value| NewJob::new("a", &args).unique_key(queued(Update::append()));
    let push = || job("a").unique_key(queued(Update::latest().push(MINUTE)));
    let policy = UniquePolicy::new().scope(UniqueScope::Queued).update(Update::append());
    let of_list = |policy| NewJob::new("a", &json!({"list": [1]})).unique(policy);
    let in_sql = r#"{"key": "k", "scope": "queued", "update": "append"}"#;
    let push_in_sql = r#"{"key": "k", "scope": "queued", "max_delay": "PT1M"}"#;
    // One that is overdue by a second gives up its claim.
    let holder = client.insert(append(json!({"list": [1], "n": 1})).scheduled_in(60 * MINUTE)).await.unwrap();
    for (refused, args, policy, problem) in [
        (push().scheduled_in(MINUTE), "{}", push_in_sql, "max_delay: must be longer than the delay"),
        (
            push().scheduled_at(OffsetDateTime::now_utc() + 5 * MINUTE),
            "{}",
            push_in_sql,
            "max_delay: must be longer than the delay",
        ),
        (append(json!({"list": 2})), r#"{"list": 2}"#, in_sql, "append needs an array in both jobs: \"list\""),
        (append(json!({"n": [2]})), r#"{"n": [2]}"#, in_sql, "append needs an array in both jobs: \"n\""),
        (append(json!({"n": 2})), r#"{"n": 2}"#, in_sql, "append needs an array in both jobs: \"n\""),
        (append(json!([1])), "[1]", in_sql, "update needs objects for append"),
        (
            of_list(policy.clone().by_arg_fields(["list"])),
            r#"{"list": [1]}"#,
            r#"{"keys": ["args"], "args_keys": ["list"], "scope": "queued", "update": "append"}"#,
            "update: append would change a member that the key is made from: \"list\"",
        ),
        (
            of_list(policy.by_args()),
            r#"{"list": [1]}"#,
            r#"{"keys": ["args"], "scope": "queued", "update": "append"}"#,
            "update: append would change the args",
        ),
        (
            job("a").unique_key(UniqueKey::raw("k").scope(UniqueScope::Active).on_conflict(OnConflict::RunAgain)),
            "{}",
            r#"{"key": "k", "scope": "active", "on_conflict": "run_again"}"#,
            "on_conflict: run_again needs a scope without running",
        ),
    ] {
        for error in [
            client.insert(refused.clone()).await.unwrap_err(),
            client.explain(refused.clone()).await.unwrap_err(),
            // All or nothing: the other job of the batch is not inserted either.
            client.insert_many([job("other"), refused]).await.unwrap_err(),
        ] {
            assert!(error.to_string().contains(problem), "{error}");
        }
        for function in ["insert_job", "explain_unique"] {
            let sql = format!(
                "SELECT count(*) FROM {{schema}}.{function}('a', '{args}', scheduled_at => now() + interval '61 s',
                    unique_policy => '{policy}')"
            );
            let (code, error) = database.refused(&sql).await;
            assert!(code == "22023" && error.contains(problem), "{code}: {error}");
        }
    }
    let stored = "SELECT string_agg(id || args::text, ' ') FROM {schema}.job";
    assert_eq!(database.text(stored).await, format!(r#"{}{{"n": 1, "list": [1]}}"#, holder.id()));
}
