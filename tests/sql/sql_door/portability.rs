//! The schema survives a dump and a restore, with its jobs and its functions.

use std::process::Command;

use sqlx::{Connection, PgConnection};

use super::insert;
use support::Database;

#[tokio::test]
async fn a_schema_with_jobs_survives_dump_and_restore() {
    let database = Database::new().await;
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let Some(pg_dump) = support::tools::of_server("pg_dump", &database.url).await else {
        return;
    };
    let job =
        r#"'k', '{"a": [1.0, "é"]}', unique_policy => '{"keys": ["args"], "args_keys": ["a"], "scope": "exists"}'"#;
    let before = insert(&database, job).await.unwrap();
    insert(&database, "'plain'").await.unwrap();

    let dump = Command::new(pg_dump).args(["--schema", &database.schema, "--dbname", &database.url]).output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    sqlx::raw_sql(database.sql("DROP SCHEMA {schema} CASCADE")).execute(&mut connection).await.unwrap();
    let dump = String::from_utf8(dump.stdout).unwrap();
    restore(&dump, &mut connection).await;

    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    sqlx::query("SET search_path = ''").execute(&mut connection).await.unwrap();
    let text = format!("SELECT i.* FROM {{schema}}.insert_job({job}) AS i");
    let row = sqlx::raw_sql(database.sql(&text)).fetch_one(&mut connection).await.unwrap();
    let after = super::Answer::of(&row);
    assert!(after.duplicate);
    assert_eq!((after.id, after.unique_key), (before.id, before.unique_key));
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 2);
    database.client.check_schema().await.unwrap();
    assert!(database.client.insert(support::job("new")).await.is_ok());
}

/// As `psql` would: statement by statement, with the rows of COPY between them.
async fn restore(dump: &str, connection: &mut PgConnection) {
    let lines = dump.lines().filter(|line| !line.starts_with('\\') || *line == "\\.");
    let mut statements = String::new();
    let mut lines = lines.peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("COPY ") {
            sqlx::raw_sql(sqlx::AssertSqlSafe(std::mem::take(&mut statements)))
                .execute(&mut *connection)
                .await
                .unwrap();
            let mut rows = connection.copy_in_raw(line.trim_end_matches(';')).await.unwrap();
            for row in lines.by_ref().take_while(|row| *row != "\\.") {
                rows.send(format!("{row}\n").into_bytes()).await.unwrap();
            }
            rows.finish().await.unwrap();
        } else {
            statements.push_str(line);
            statements.push('\n');
        }
    }
    sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(connection).await.unwrap();
}
