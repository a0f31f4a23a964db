//! Five statements that a DBA would run next, with their results.

use serde::Serialize;
use serde_json::{Map, Value};
use sqlx::postgres::PgColumn;
use sqlx::{AssertSqlSafe, Column, Executor, PgConnection, Row, SqlSafeStr, Statement as _, TypeInfo, ValueRef};
use uniqueue::SchemaName;
use uuid::Uuid;

use crate::output;

const STATEMENTS: [(&str, &str); 5] = [
    (
        "Where are the jobs?",
        "SELECT state, count(*) AS jobs, round(avg(attempt), 2) AS attempts, max(finalized_at)::timestamptz(0) AS latest_end
FROM {queue}.job
WHERE queue = 'demo'
GROUP BY state
ORDER BY state",
    ),
    (
        "Which jobs claim a unique key, and while in which states?",
        "SELECT kind, array_to_string({queue}.state_names(unique_states), ', ') AS claims_while,
    count(*) AS jobs, count(*) FILTER (WHERE claims) AS claims_now
FROM {queue}.job
WHERE unique_key IS NOT NULL
GROUP BY kind, unique_states
ORDER BY kind, unique_states",
    ),
    (
        "Which jobs ran longest, and what did they store?",
        "SELECT right(f.path, 48) AS path, c.bytes, c.lines, left(encode(c.sha256, 'hex'), 12) AS sha256,
    round(extract(epoch FROM j.finalized_at - j.attempted_at) * 1000, 1) AS ms
FROM uniqueue_demo.file AS f
JOIN {queue}.job AS j ON j.id = f.job_id
JOIN uniqueue_demo.checksum AS c ON c.job_id = f.job_id
WHERE f.run_id = '{run}'
ORDER BY j.finalized_at - j.attempted_at DESC
LIMIT 5",
    ),
    (
        "Which jobs fail, and why?",
        "SELECT kind, state, errors -> -1 ->> 'error' AS last_error, count(*) AS jobs, right(min(args ->> 'path'), 48) AS for_example
FROM {queue}.job
WHERE queue = 'demo' AND errors <> '[]'
GROUP BY kind, state, last_error
ORDER BY jobs DESC, last_error
LIMIT 10",
    ),
    (
        "How large are the tables, and how many dead rows do they hold?",
        "SELECT schemaname AS schema, relname AS \"table\", n_live_tup AS live_rows, n_dead_tup AS dead_rows,
    pg_size_pretty(pg_table_size(relid)) AS size, pg_size_pretty(pg_indexes_size(relid)) AS indexes,
    greatest(last_vacuum, last_autovacuum)::timestamptz(0) AS last_vacuum
FROM pg_stat_user_tables
WHERE schemaname IN ('{schema}', 'uniqueue_demo')
ORDER BY pg_total_relation_size(relid) DESC, relname",
    ),
];

/// A statement and its result.
#[derive(Debug, Serialize)]
pub(super) struct Statement {
    question: &'static str,
    sql: String,
    rows: Vec<Map<String, Value>>,
    #[serde(skip)]
    table: String,
}

/// Runs all five.
pub(super) async fn run_all(
    connection: &mut PgConnection,
    schema: &SchemaName,
    run_id: Uuid,
) -> sqlx::Result<Vec<Statement>> {
    // The default name needs no quotes and reads better without them.
    let queue = if *schema == SchemaName::default() { schema.to_string() } else { schema.quoted() };
    let run_id = run_id.to_string();
    let mut results = Vec::with_capacity(STATEMENTS.len());
    for (question, statement) in STATEMENTS {
        let sql = statement.replace("{queue}", &queue).replace("{schema}", schema.as_str()).replace("{run}", &run_id);
        results.push(Statement::run(connection, question, format!("{sql};")).await?);
    }
    Ok(results)
}

impl Statement {
    /// Runs a statement with the simple protocol, as psql does, so that every value comes as text.
    async fn run(connection: &mut PgConnection, question: &'static str, sql: String) -> sqlx::Result<Self> {
        // Safe to run: it consists of constants, a UUID and a schema name, whose alphabet has no quotes.
        let rows = sqlx::raw_sql(AssertSqlSafe(sql.clone())).fetch_all(&mut *connection).await?;
        let (header, is_number): (Vec<_>, Vec<_>) = match rows.first() {
            Some(row) => row.columns().iter().map(describe).unzip(),
            // The simple protocol names columns only with a row, so the prepared statement names them here.
            None => connection
                .prepare(AssertSqlSafe(sql.clone()).into_sql_str())
                .await?
                .columns()
                .iter()
                .map(describe)
                .unzip(),
        };
        let mut values = Vec::with_capacity(rows.len());
        let mut texts = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut named = Map::new();
            let mut line = Vec::with_capacity(header.len());
            for (at, name) in header.iter().enumerate() {
                let value = row.try_get_raw(at)?;
                let text = if value.is_null() { None } else { Some(value.as_str().map_err(sqlx::Error::Decode)?) };
                named.insert(name.clone(), as_json(text, is_number[at]));
                line.push(text.unwrap_or_default().to_owned());
            }
            values.push(named);
            texts.push(line);
        }
        Ok(Self { question, sql, rows: values, table: output::table(&header, &is_number, &texts) })
    }

    /// The question, the statement and its result, as in a psql session.
    pub(super) fn text(&self) -> String {
        format!("-- {}\n{}\n{}\n", self.question, self.sql, self.table)
    }
}

/// A column's name, and whether its values are numbers.
fn describe(column: &PgColumn) -> (String, bool) {
    let is_number = matches!(column.type_info().name(), "INT2" | "INT4" | "INT8" | "NUMERIC" | "FLOAT8");
    (column.name().to_owned(), is_number)
}

fn as_json(text: Option<&str>, is_number: bool) -> Value {
    match text {
        None => Value::Null,
        Some(text) if is_number => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        Some(text) => text.into(),
    }
}
