//! Groups whose first job has waited long.

use super::finding::{Finding, FindingCode, Remedy, Severity};
use super::thresholds::Thresholds;
use super::wording::{age, command, counted, plain};
use crate::ident::SchemaName;
use crate::store::HeldGroupCount;

pub(super) fn held(schema: &SchemaName, held: &HeldGroupCount, limits: &Thresholds) -> Option<Finding> {
    let HeldGroupCount { queue, reason, groups, group_key, held_by, oldest_age, .. } = held;
    let late = limits.waiting.judge_age(*oldest_age)?;
    let (severity, advice) = match reason.as_str() {
        "kind" => (
            Severity::Warning,
            "Deploy a runner with a worker for the kind, or cancel the first jobs: they block their groups",
        ),
        "began" => (
            Severity::Warning,
            "See why that job does not go on. Retry it now, release it, or cancel it, after which its group goes on",
        ),
        "hold" => (Severity::Notice, "End the hold, unless it is intended: uniqueue queue resume with --group"),
        // A limit that is used to the full is what it is for.
        _ => (
            if late == Severity::Critical { Severity::Warning } else { Severity::Notice },
            "Raise the limit of the group or of the queue's groups, if what they protect allows it. Where its running jobs \
             take too long, see job_slow and job_long",
        ),
    };
    let seen = format!(
        "{} waiting for up to {}, such as {}: {}",
        counted(groups.unsigned_abs(), "group has its first job", "groups have their first job"),
        age(*oldest_age),
        plain(group_key),
        plain(held_by.trim_end_matches('.'))
    );
    let remedy = Remedy::advice(advice).command(command(schema, "queue groups", queue));
    Some(Finding::new(FindingCode::GroupHeld, severity, format!("queue {}", plain(queue)), seen, remedy).with(held))
}
