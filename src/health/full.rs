//! Queues that have as many available jobs as their limit allows.

use super::finding::{Finding, FindingCode, Remedy, Severity};
use super::wording::{plain, thousands};
use super::work::command;
use crate::ident::SchemaName;
use crate::store::{self, FullQueue};

pub(super) fn queue(schema: &SchemaName, full: &FullQueue) -> Finding {
    let FullQueue { queue, max_waiting, is_enforced, .. } = full;
    let limit = max_waiting.unsigned_abs();
    let more = limit.saturating_mul(2).min(u64::from(i32::MAX.unsigned_abs()));
    let (seen, remedy) = match is_enforced {
        true => (
            format!("{} of its jobs wait, which is its limit: inserts that add to them are refused", thousands(limit)),
            Remedy::advice(
                "Let more runners work it, or see why they are slow. Raise its limit, or remove it with NULL, if the jobs \
                 may wait",
            )
            .sql(store::sql_to_limit_waiting(schema, queue, more))
            .command(format!("{} {}", command(schema, "queue max-waiting", queue), more)),
        ),
        false => (
            format!(
                "at most {} of its jobs may wait, and the trigger job_max_waiting, which refuses more, is missing or disabled",
                thousands(limit)
            ),
            Remedy::advice("Remove the limit and set it again, as the owner of the tables, which creates the trigger").sql(
                store::sql_to_enforce_max_waiting(schema, queue, limit),
            ),
        ),
    };
    Finding::new(FindingCode::QueueFull, Severity::Warning, format!("queue {}", plain(queue)), seen, remedy).with(full)
}
