//! The migrations, and which of them a schema has seen.

use sqlx::{PgConnection, Row};

use super::{Statements, checksum, query};
use crate::error::{Error, Result};

pub(super) const MIGRATIONS: &[(&str, &str)] = &[
    ("V01__job", include_str!("../../migrations/V01__job.sql")),
    ("V02__queue_and_runner", include_str!("../../migrations/V02__queue_and_runner.sql")),
    ("V03__rate", include_str!("../../migrations/V03__rate.sql")),
    ("V04__group", include_str!("../../migrations/V04__group.sql")),
    ("V05__fetch", include_str!("../../migrations/V05__fetch.sql")),
    ("V06__canonical_json", include_str!("../../migrations/V06__canonical_json.sql")),
    ("V07__unique_policy", include_str!("../../migrations/V07__unique_policy.sql")),
    ("V08__duplicate_audit", include_str!("../../migrations/V08__duplicate_audit.sql")),
    ("V09__insert_unique", include_str!("../../migrations/V09__insert_unique.sql")),
    ("V10__on_conflict", include_str!("../../migrations/V10__on_conflict.sql")),
    ("V11__insert_batch", include_str!("../../migrations/V11__insert_batch.sql")),
    ("V12__insert_job", include_str!("../../migrations/V12__insert_job.sql")),
    ("V13__explain_unique", include_str!("../../migrations/V13__explain_unique.sql")),
    ("V14__argument", include_str!("../../migrations/V14__argument.sql")),
    ("V15__claim", include_str!("../../migrations/V15__claim.sql")),
    ("V16__change_jobs", include_str!("../../migrations/V16__change_jobs.sql")),
    ("V17__queue_settings", include_str!("../../migrations/V17__queue_settings.sql")),
    ("V18__periodic", include_str!("../../migrations/V18__periodic.sql")),
    ("V19__views", include_str!("../../migrations/V19__views.sql")),
    ("V20__why_waiting_sentences", include_str!("../../migrations/V20__why_waiting_sentences.sql")),
    ("V21__why_waiting_queue", include_str!("../../migrations/V21__why_waiting_queue.sql")),
    ("V22__why_waiting", include_str!("../../migrations/V22__why_waiting.sql")),
    ("V23__kind", include_str!("../../migrations/V23__kind.sql")),
    ("V24__group_views", include_str!("../../migrations/V24__group_views.sql")),
    ("V25__stuck_job", include_str!("../../migrations/V25__stuck_job.sql")),
    ("V26__health", include_str!("../../migrations/V26__health.sql")),
    ("V27__finish", include_str!("../../migrations/V27__finish.sql")),
    ("V28__rescue", include_str!("../../migrations/V28__rescue.sql")),
    ("V29__prune", include_str!("../../migrations/V29__prune.sql")),
    ("V30__maintain", include_str!("../../migrations/V30__maintain.sql")),
    ("V31__fetch_jobs", include_str!("../../migrations/V31__fetch_jobs.sql")),
    ("V32__finish_jobs", include_str!("../../migrations/V32__finish_jobs.sql")),
    ("V33__job_parent", include_str!("../../migrations/V33__job_parent.sql")),
    ("V34__release_children", include_str!("../../migrations/V34__release_children.sql")),
    ("V35__relatives", include_str!("../../migrations/V35__relatives.sql")),
    ("V36__place", include_str!("../../migrations/V36__place.sql")),
    ("V37__history", include_str!("../../migrations/V37__history.sql")),
];

/// The version that this library was built with: the last migration's.
pub(crate) const LATEST_VERSION: i32 = {
    let name = MIGRATIONS[MIGRATIONS.len() - 1].0.as_bytes();
    let (mut version, mut place) = (0, 1);
    while name[place] != b'_' {
        version = version * 10 + (name[place] - b'0') as i32;
        place += 1;
    }
    version
};

/// The table that records which migrations a schema has seen.
pub(super) const HISTORY: &str = "schema_history";

/// The version of the schema in the database; 0 where there is none.
///
/// # Errors
///
/// [`Error::IncompatibleSchema`] where a migration that it has seen is not this library's: until the first release the
/// migrations themselves are edited. Without the feature `migrate` only the versions are compared.
pub(crate) async fn schema_version(connection: &mut PgConnection, statements: &Statements) -> Result<i32> {
    let has_history: bool = sqlx::query("SELECT to_regclass($1) IS NOT NULL")
        .bind(format!("{}.{HISTORY}", statements.schema().quoted()))
        .fetch_one(&mut *connection)
        .await?
        .try_get(0)?;
    if !has_history {
        return Ok(0);
    }
    let known = checksum::known(MIGRATIONS);
    let mut latest = 0;
    for row in query(&statements.schema_version).fetch_all(connection).await? {
        let (version, name): (i32, String) = (row.try_get("version")?, row.try_get("name")?);
        let is_known = known.iter().find(|(known, _)| *known == version);
        if is_known.is_some_and(|(_, checksum)| checksum != row.get::<&str, _>("checksum")) {
            return Err(Error::IncompatibleSchema {
                schema: statements.schema().clone(),
                found: label(version, &name),
            });
        }
        latest = version;
    }
    Ok(latest)
}

/// Such as `V1 job`.
pub(super) fn label(version: i32, name: &str) -> String {
    format!("V{version} {name}")
}
