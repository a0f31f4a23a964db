//! Text from outside stays text: in names of schemas, queues and kinds, in keys, in filters, and in what views answer.
//! A database whose encoding is not UTF8 can have no queue, and says so at once.

use support::prelude::*;
use support::url;
use uniqueue_admin::Severity;

/// What would do something if anything ever spliced it into a statement, a pattern or a format.
const HOSTILE: [&str; 12] = [
    "'; DROP TABLE job; --",
    "\"; DROP TABLE job; --",
    "' OR '1'='1",
    "\\'; SELECT pg_sleep(60); --",
    "$1",
    "$$; DROP TABLE job; $$",
    "{schema}.job",
    "/* schema */job",
    "/* matching */true",
    "%I %L %s %",
    "{a,b}\",NULL",
    "ʼ; DROP TABLE job; --",
];

#[test]
fn no_schema_name_can_leave_its_quotes() {
    for name in HOSTILE.into_iter().chain(["", "a b", "a\"b", "a'b", "a;b", "a.b", "a\nb", "a\0b", "é", "pg_x", "a\\b"])
    {
        let error = SchemaName::new(name).expect_err(name).to_string();
        assert!(error.starts_with("invalid schema"), "{name}: {error}");
    }
}

#[support::test]
async fn hostile_text_is_a_queue_a_kind_a_key_and_a_payload_like_any_other(database: Database, client: &Client) {
    let before = database.catalog().await;
    for text in HOSTILE {
        let args = json!({text: text});
        let new = NewJob::new(text, &args).queue(text).meta(text, text).unique_key(UniqueKey::raw(text));
        let id = client.insert(new.clone()).await.unwrap().id();
        assert!(client.insert(new.clone()).await.unwrap().duplicate, "{text}");
        let batch = client.insert_many([new.clone(), new]).await.unwrap();
        assert!(batch.iter().all(|answer| answer.duplicate && answer.id() == id), "{text}");
        let row = client.job(id).await.unwrap().unwrap();
        assert_eq!((row.kind.as_str(), row.queue.as_str(), row.unique_key.as_deref()), (text, text, Some(text)));
        assert_eq!(serde_json::from_str::<serde_json::Value>(row.args.get()).unwrap(), args);
        assert_eq!(client.holder(text).await.unwrap().unwrap().id, id);
    }
    // Each filter finds its one job among them.
    for text in HOSTILE {
        for filter in [
            JobFilter::new().kind(text),
            JobFilter::new().queue(text),
            JobFilter::new().unique_key(text),
            JobFilter::new().args(json!({text: text})),
            JobFilter::new().meta(json!({text: text})),
        ] {
            assert_eq!(client.jobs(filter.clone()).await.unwrap().len(), 1, "{text}: {filter:?}");
            assert_eq!(client.set_priority(filter, 3).await.unwrap().len(), 1, "{text}");
        }
        client.queue(text).limit(Some(3)).await.unwrap();
        client.queue(text).pause().await.unwrap();
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 12);
    assert_eq!(database.catalog().await, before);
    // The remedies that the view writes are statements, and do what they say to that queue alone.
    database.execute("UPDATE {schema}.queue SET paused_at = now() - interval '1 hour'").await;
    let update =
        "UPDATE {schema}.job SET created_at = now() - interval '1 hour', scheduled_at = now() - interval '1 hour'";
    database.execute(update).await;
    for text in HOSTILE {
        let quoted = text.replace('\'', "''");
        let remedy =
            sqlx::query_scalar::<_, String>(database.sql("SELECT remedy FROM {schema}.stuck_job WHERE queue = $1"))
                .bind(text)
                .fetch_one(database.pool())
                .await
                .unwrap();
        assert!(remedy.contains(&quoted) || remedy.contains("E'"), "{remedy}");
        let resumed =
            sqlx::query_scalar::<_, String>(sqlx::AssertSqlSafe(remedy)).fetch_all(database.pool()).await.unwrap();
        assert_eq!(resumed, [text]);
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.queue WHERE paused_at IS NULL").await, 12);
    for text in HOSTILE {
        assert!(client.release_claim(text).await.unwrap().is_some(), "{text}");
        assert_eq!(client.cancel(JobFilter::new().queue(text).states(JobState::Available)).await.unwrap().len(), 1);
        assert_eq!(client.delete(JobFilter::new().kind(text)).await.unwrap().len(), 1);
    }
    assert_eq!(database.catalog().await, before);
}

#[support::test]
async fn hostile_text_through_the_functions_is_the_same(database: Database) {
    for text in HOSTILE {
        let insert = "SELECT i.unique_key FROM {schema}.insert_job($1, jsonb_build_object($1, $1), queue => $1,
                meta => jsonb_build_object($1, $1),
                unique_policy => jsonb_build_object('key', $1)) AS i";
        let call = |sql: &str| {
            sqlx::query_scalar::<_, String>(database.sql(&sql.replace("{schema}", &database.schema))).bind(text)
        };
        assert_eq!(call(insert).fetch_one(database.pool()).await.unwrap(), text);
        for sql in [
            "SELECT q.name FROM {schema}.pause_queue($1) AS q",
            r#"SELECT q.name FROM {schema}.set_queue($1, '{"limit": 1}') AS q"#,
            "SELECT q.name FROM {schema}.resume_queue($1) AS q",
            "SELECT c.queue FROM {schema}.cancel_jobs(ARRAY(SELECT id FROM {schema}.job WHERE kind = $1)) AS c",
        ] {
            assert_eq!(call(sql).fetch_one(database.pool()).await.unwrap(), text, "{sql}");
        }
        // As a state it is none.
        let states = "SELECT c.kind FROM {schema}.retry_jobs(ARRAY(SELECT id FROM {schema}.job), ARRAY[$1]) AS c";
        let error = call(states).fetch_one(database.pool()).await.unwrap_err();
        assert!(error.to_string().contains("invalid input value for enum"), "{error}");
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE state = 'cancelled'").await, 12);
}

#[tokio::test]
async fn migrate_and_doctor_name_an_encoding_that_is_not_utf8() {
    let mut connection = PgConnection::connect(url().await).await.unwrap();
    let version: i32 = sqlx::query_scalar("SELECT current_setting('server_version_num')::integer")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    // ICU has neither of them. PostgreSQL 14 has libc alone.
    let provider = if version < 150_000 { "" } else { "LOCALE_PROVIDER libc" };
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let name = format!("encoding_{}", encoding.to_lowercase());
        let create = format!(
            "CREATE DATABASE {name} TEMPLATE template0 ENCODING {encoding} {provider} LC_COLLATE 'C' LC_CTYPE 'C'"
        );
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut connection).await.unwrap();
        let pool = PgPool::connect(&url().await.replace("/postgres?", &format!("/{name}?"))).await.unwrap();
        let client = Client::new(pool);
        let expected = format!(
            "schema uniqueue: the database \"{name}\" has the encoding {encoding}, and the queue needs UTF8; \
             hint: make another database: createdb --encoding UTF8 --template template0"
        );
        for error in [client.migrate().await.unwrap_err(), client.migration().sql().await.unwrap_err()] {
            assert!(error.to_string().ends_with(&expected), "{error}");
        }
        let diagnosis = Admin::new(&client).diagnose().await.unwrap();
        let [finding] = &diagnosis.findings[..] else { panic!("{:#?}", diagnosis.findings) };
        assert_eq!((finding.code.as_str(), finding.severity), ("encoding", Severity::Critical));
        assert_eq!(finding.seen, format!("its encoding is {encoding}, and the queue needs UTF8"));
    }
}
