//! A database whose encoding is not UTF8 can have no queue, and says so at once.

use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};
use uniqueue::{Client, Severity};

use support::url;

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
        let diagnosis = client.diagnose().await.unwrap();
        let [finding] = &diagnosis.findings[..] else { panic!("{:#?}", diagnosis.findings) };
        assert_eq!((finding.code.as_str(), finding.severity), ("encoding", Severity::Critical));
        assert_eq!(finding.seen, format!("its encoding is {encoding}, and the queue needs UTF8"));
    }
}
