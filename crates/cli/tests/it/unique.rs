//! `uniqueue unique`: explain, holders, show, release, audit, backfill.

mod audit_and_backfill;
mod explaining;
mod holders;

use crate::support::Migrated;

async fn insert(keys: &Migrated, kind: &str, args: &str, policy: &str) -> String {
    let insert = format!("SELECT id::text FROM jobs.insert_job('{kind}', '{args}', unique_policy => '{policy}')");
    keys.texts(&insert).await.remove(0)
}
