//! The plans behind a curve: how the database goes about the statements that a point is made of.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, Row};
use uniqueue::Client;

use super::ground::{Ground, RUNNERS_SETTINGS};
use crate::failure::Failure;

/// The plans of statements of the client, by name: those that a long-lived connection comes to, whatever the arguments.
pub(super) async fn plans(
    ground: &mut Ground,
    names: &[&'static str],
) -> Result<BTreeMap<&'static str, Vec<String>>, Failure> {
    let client: Client = ground.client(1).await?;
    let statements = client.statements_text();
    client.pool().close().await;
    let mut plans = BTreeMap::new();
    ground.execute(RUNNERS_SETTINGS).await?;
    for name in names {
        let Some((_, text)) = statements.iter().find(|(known, _)| known == name) else { continue };
        ground.execute(&format!("PREPARE bench_plan AS {text}")).await?;
        let parameters =
            "SELECT cardinality(parameter_types)::bigint FROM pg_prepared_statements WHERE name = 'bench_plan'";
        let parameters = ground.count(parameters).await?;
        let nulls = vec!["NULL"; usize::try_from(parameters).unwrap_or_default()].join(", ");
        let explain = if nulls.is_empty() { "bench_plan".to_owned() } else { format!("bench_plan ({nulls})") };
        // Made of a name of ours and nulls.
        let explain = AssertSqlSafe(format!("EXPLAIN (COSTS OFF) EXECUTE {explain}"));
        let lines = sqlx::raw_sql(explain).fetch_all(&mut ground.connection).await?;
        plans.insert(*name, lines.iter().map(|line| line.try_get(0)).collect::<Result<_, _>>()?);
        ground.execute("DEALLOCATE bench_plan").await?;
    }
    ground.execute("RESET enable_seqscan; RESET plan_cache_mode; RESET jit").await?;
    Ok(plans)
}
