//! Queues whose jobs wait: paused, held, without a runner, late, or full.

use time::OffsetDateTime;

use super::finding::{Finding, FindingCode, Remedy, Severity};
use super::thresholds::Thresholds;
use super::wording::{age, command, counted, counted_jobs, plain, thousands};
use crate::ident::SchemaName;
use crate::queue::QueueInfo;
use crate::rate::Rate;
use crate::store::{self, FullQueue};

/// A hold that ends later than this may be a mistake.
const LONG_HOLD: time::Duration = time::Duration::HOUR;

/// How many queues a finding names.
const NAMED_QUEUES: usize = 5;

/// The findings of all queues. Without a live runner one finding stands for all queues that need one.
pub(super) fn all_waiting(
    schema: &SchemaName,
    queues: &[QueueInfo],
    has_runners: bool,
    limits: &Thresholds,
    now: OffsetDateTime,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut unworked = Vec::new();
    for queue in queues {
        let found = waiting(schema, queue, limits, now);
        if found.as_ref().is_some_and(|found| found.code == FindingCode::QueueUnworked) {
            unworked.push(queue);
        }
        findings.extend(found);
    }
    if !has_runners && unworked.len() > 1 {
        findings.retain(|found| found.code != FindingCode::QueueUnworked);
        findings.push(without_runners(schema, &unworked, limits));
    }
    findings
}

/// Several queues with available jobs, and no live runner at all.
fn without_runners(schema: &SchemaName, queues: &[&QueueInfo], limits: &Thresholds) -> Finding {
    let oldest = queues.iter().filter_map(|queue| queue.oldest_available_age).max().unwrap_or_default();
    let jobs = queues.iter().map(|queue| queue.available).sum();
    let names: Vec<_> = queues.iter().map(|queue| plain(queue.settings.name.as_str())).collect();
    let more = match names.len().saturating_sub(NAMED_QUEUES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let seen = format!(
        "no runner is alive, with {} available in queues {}{more}, the oldest for {}",
        counted_jobs(jobs),
        names.iter().take(NAMED_QUEUES).map(String::as_str).collect::<Vec<_>>().join(", "),
        age(oldest.as_secs_f64())
    );
    let remedy = Remedy::advice("Start the services whose runners work these queues").command(command(
        schema,
        "job list --state",
        "available",
    ));
    let severity = limits.waiting.judge(&oldest).unwrap_or(Severity::Notice);
    Finding::new(FindingCode::QueueUnworked, severity, format!("schema {schema}"), seen, remedy)
        .with(&serde_json::json!({ "queues": names }))
}

fn waiting(schema: &SchemaName, queue: &QueueInfo, limits: &Thresholds, now: OffsetDateTime) -> Option<Finding> {
    let oldest = queue.oldest_available_age?;
    let name = queue.settings.name.as_str();
    let subject = format!("queue {}", plain(name));
    let late = limits.waiting.judge(&oldest);
    let waiting = format!("{} available, the oldest for {}", counted_jobs(queue.available), age(oldest.as_secs_f64()));
    let found = if queue.settings.paused_at.is_some() {
        // The pause may be intended.
        let severity = if late.is_some() { Severity::Warning } else { Severity::Notice };
        let remedy = Remedy::advice("Resume it, unless the pause is intended")
            .sql(store::sql_to_resume_queue(schema, &queue.settings.name))
            .command(command(schema, "queue resume", name));
        Finding::new(FindingCode::QueuePaused, severity, subject, format!("it is paused, with {waiting}"), remedy)
    } else if let Some(until) = queue.settings.held_until {
        if until - now <= LONG_HOLD {
            return None;
        }
        let remedy = Remedy::advice("End the hold, unless it is intended")
            .sql(store::sql_to_resume_queue(schema, &queue.settings.name))
            .command(command(schema, "queue resume", name));
        let seen = format!("it is held for another {}, with {waiting}", age((until - now).as_seconds_f64()));
        Finding::new(FindingCode::QueueHeld, Severity::Notice, subject, seen, remedy)
    } else if queue.runners == 0 {
        let remedy = Remedy::advice("Start the service whose runner works it").command(command(
            schema,
            "job list --state available --queue",
            name,
        ));
        let severity = late.unwrap_or(Severity::Notice);
        Finding::new(
            FindingCode::QueueUnworked,
            severity,
            subject,
            format!("no live runner works it, with {waiting}"),
            remedy,
        )
    } else {
        let mut severity = late?;
        let running = counted_jobs(queue.running);
        let runners = counted(queue.runners, "live runner works", "live runners work");
        let mut seen = format!("{waiting}; {runners} it, {running} running");
        let full = queue.settings.limit.filter(|limit| queue.running.counted() >= u64::from(*limit));
        let remedy = match (queue.settings.rate, full, queue.settings.limit) {
            // A rate that is used to the full is what it is for.
            (Some(rate), ..) => {
                severity = if severity == Severity::Critical { Severity::Warning } else { Severity::Notice };
                seen = format!("{seen}, under its rate of {rate}");
                let more = Rate::per(rate.count.saturating_mul(2), rate.period);
                Remedy::advice("Raise its rate, or remove it with none, if the service that it protects allows it")
                    .command(format!("{} {more}", command(schema, "queue rate", name)))
            }
            (None, Some(limit), _) => {
                seen = format!("{seen}, which is its limit");
                let more = limit.saturating_mul(2);
                Remedy::advice("Raise its limit, or remove it with NULL, if the service that it protects allows it")
                    .sql(store::sql_to_limit_queue(schema, &queue.settings.name, more))
                    .command(format!("{} {more}", command(schema, "queue limit", name)))
            }
            (None, None, Some(limit)) => {
                seen = format!("{seen} of its limit of {limit}");
                Remedy::advice(
                    "An open transaction that has changed the queue's row blocks it: see blocking_transaction. Otherwise \
                     its runners have too few slots",
                )
            }
            (None, None, None) => Remedy::advice(
                "Where all slots are busy, add runners or concurrency. Where they are not, see blocking_transaction and \
                 kind_unknown",
            ),
        };
        Finding::new(FindingCode::QueueLate, severity, subject, seen, remedy)
    };
    Some(found.with(queue))
}

/// A queue that has as many available jobs as `max_waiting` allows.
pub(super) fn full(schema: &SchemaName, full: &FullQueue) -> Finding {
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
