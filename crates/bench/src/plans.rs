//! The plans behind a curve: what EXPLAIN shows of the statements of a point.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, Row};
use uniqueue::Client;

use crate::failure::Failure;
use crate::test_database::{RUNNER_SETTINGS, TestDatabase};

/// The generic plans of statements of the client, by name: a long-lived connection uses them for all arguments.
pub(crate) async fn plans(
    database: &mut TestDatabase,
    names: &[&'static str],
) -> Result<BTreeMap<&'static str, Vec<String>>, Failure> {
    let client: Client = database.client(1).await?;
    let statements = client.statements_text();
    client.pool().close().await;
    let mut plans = BTreeMap::new();
    database.execute(RUNNER_SETTINGS).await?;
    for name in names {
        let Some((_, text)) = statements.iter().find(|(known, _)| known == name) else { continue };
        database.execute(&format!("PREPARE bench_plan AS {text}")).await?;
        let parameters =
            "SELECT cardinality(parameter_types)::bigint FROM pg_prepared_statements WHERE name = 'bench_plan'";
        let parameters = database.count(parameters).await?;
        let nulls = vec!["NULL"; usize::try_from(parameters).unwrap_or_default()].join(", ");
        let explain = if nulls.is_empty() { "bench_plan".to_owned() } else { format!("bench_plan ({nulls})") };
        // Safe to splice: the text consists of a constant name and nulls.
        let explain = AssertSqlSafe(format!("EXPLAIN (COSTS OFF) EXECUTE {explain}"));
        let lines = sqlx::raw_sql(explain).fetch_all(&mut database.connection).await?;
        plans.insert(*name, lines.iter().map(|line| line.try_get(0)).collect::<Result<_, _>>()?);
        database.execute("DEALLOCATE bench_plan").await?;
    }
    database.execute("RESET enable_seqscan; RESET plan_cache_mode; RESET jit").await?;
    Ok(plans)
}
