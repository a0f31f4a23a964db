//! Problems that keep jobs from being worked: runners, kinds, claims, maintenance.

use std::time::Duration;

use super::finding::{Finding, FindingCode, Remedy, Severity};
use super::thresholds::Thresholds;
use super::wording::{age, command, counted, counted_jobs, plain, shell, thousands};
use crate::count::JobCount;
use crate::ident::SchemaName;
use crate::store::{
    self, ExpiredJobs, IdleClaims, Neglected, Overdue, RunnerSeen, SlowJobs, StuckJobCount, SuspectJobs, UnknownKind,
    UnreadableJobs,
};

/// After this time without a run a maintenance service counts as idle. Runners that wait for its lease check it once a
/// minute at the least.
pub(super) const NEGLECTED_AFTER: Duration = Duration::from_secs(180);

/// A runner extends its lease four times a term: at more than half a term two heartbeats are missing.
pub(super) fn runner(runner: &RunnerSeen) -> Option<Finding> {
    let subject = format!("runner {} ({})", plain(&runner.name), runner.id);
    let queues = runner.queues.iter().map(|queue| plain(queue)).collect::<Vec<_>>().join(", ");
    if runner.lease_left <= 0.0 {
        let mut seen = format!("its lease ran out {} ago; it worked {queues}", age(-runner.lease_left));
        let mut severity = Severity::Notice;
        if runner.running > 0 {
            let jobs = counted(runner.running.unsigned_abs(), "job", "jobs");
            seen = format!("{seen}; it still has {jobs} running");
            severity = Severity::Warning;
        }
        let remedy = Remedy::advice(
            "See why it died or lost the database. Any live runner rescues its jobs within ten seconds of the end of its \
             lease. The row is removed after a day",
        );
        return Some(Finding::new(FindingCode::RunnerDead, severity, subject, seen, remedy).with(runner));
    }
    let (lease, since) = (runner.lease?, runner.heartbeat_age?);
    if since <= lease * 0.6 {
        return None;
    }
    let seen = format!(
        "its last heartbeat was {} ago and should come every {}; its lease ends in {}, then its jobs are rescued",
        age(since),
        age(lease / 4.0),
        age(runner.lease_left)
    );
    let remedy = Remedy::advice(
        "See whether its process is stopped, out of CPU or blocked by work that does not yield, or its connection to \
         the database is slow. Runner::lease gives it more time",
    );
    Some(Finding::new(FindingCode::RunnerLate, Severity::Warning, subject, seen, remedy).with(runner))
}

pub(super) fn unknown_kind(schema: &SchemaName, unknown: &UnknownKind, limits: &Thresholds) -> Finding {
    let (kind, queue) = (plain(&unknown.kind), plain(&unknown.queue));
    let severity = limits.waiting.judge_age(unknown.oldest_age).map_or(Severity::Notice, |_| Severity::Warning);
    let seen = format!(
        "{} available in queue {queue}, the oldest for {}, and no live runner of the queue has a worker for the kind",
        counted_jobs(JobCount::Exactly(unknown.jobs.unsigned_abs())),
        age(unknown.oldest_age)
    );
    let remedy = Remedy::advice(
        "Deploy a runner with a worker for it. If the kind was removed, cancel its jobs. If it is misspelt, insert them \
         again",
    )
    .command(format!(
        "{} --kind {} --dry-run",
        command(schema, "job cancel --queue", &unknown.queue),
        shell(&unknown.kind)
    ));
    Finding::new(FindingCode::KindUnknown, severity, format!("kind {kind}"), seen, remedy).with(unknown)
}

pub(super) fn stuck(schema: &SchemaName, stuck: &StuckJobCount, limits: &Thresholds) -> Option<Finding> {
    let subject = format!("queue {}", plain(&stuck.queue));
    // The list ends at a thousand a reason.
    let jobs = counted_jobs(JobCount::up_to(999, stuck.jobs.unsigned_abs()));
    let (job, oldest, kind) = (stuck.job, age(stuck.oldest_age), plain(&stuck.kind));
    let seen = format!(
        "{jobs} for up to {oldest}, such as {job} of kind {kind}: {}",
        plain(stuck.reason.trim_end_matches('.'))
    );
    let show = command(schema, "job show", &job.to_string());
    let found = match stuck.code.as_str() {
        "runner_died" => Finding::new(
            FindingCode::JobStuck,
            limits.overdue.judge_age(stuck.oldest_age)?,
            subject,
            seen,
            Remedy::advice(
                "Start a runner, of any queue: it rescues them within seconds. With live runners, see service_off and \
                 service_idle for the rescuer",
            )
            .command(show),
        ),
        "not_promoted" => Finding::new(
            FindingCode::JobOverdue,
            limits.overdue.judge_age(stuck.oldest_age)?,
            subject,
            seen,
            Remedy::advice(
                "Start a runner, of any queue: it makes due jobs available. With live runners, see service_off and \
                 service_idle for the promoter",
            )
            .command(show),
        ),
        _ => Finding::new(
            FindingCode::JobLong,
            Severity::Notice,
            subject,
            seen,
            Remedy::advice("Wait, or cancel it. Runner::timeout bounds how long a job may run")
                .sql(store::sql_to_cancel(schema, job))
                .command(command(schema, "job cancel", &job.to_string())),
        ),
    };
    Some(found.with(stuck))
}

pub(super) fn suspects(schema: &SchemaName, suspects: &SuspectJobs) -> Finding {
    let SuspectJobs { kind, queue, is_discarded, jobs, crashes, job } = suspects;
    let were = if *is_discarded { "discarded after" } else { "suspected after" };
    let seen = format!(
        "{} of queue {} {were} crashes of their runners, up to {crashes} in a row, such as {job}",
        counted_jobs(JobCount::Exactly(jobs.unsigned_abs())),
        plain(queue)
    );
    let severity = if *is_discarded { Severity::Notice } else { Severity::Warning };
    let remedy = Remedy::advice(
        "See what ends the process: a stack overflow, an abort, or too little memory. The logs of the runner's machine say \
         it. Each suspect runs alone at first, for longer after each crash, until it ends or is discarded",
    )
    .command(command(schema, "job show", &job.to_string()));
    Finding::new(FindingCode::JobSuspect, severity, format!("kind {}", plain(kind)), seen, remedy).with(suspects)
}

pub(super) fn expired(schema: &SchemaName, expired: &ExpiredJobs) -> Finding {
    let ExpiredJobs { kind, queue, jobs, job } = expired;
    let seen = format!(
        "{} of queue {} expired before they started in the last hour, such as {job}",
        counted_jobs(JobCount::Exactly(jobs.unsigned_abs())),
        plain(queue)
    );
    let remedy = Remedy::advice(
        "Start more runners of the queue, give the jobs more time, or see whether the queue was paused or its limit too \
         low. A retry runs an expired job however late it is",
    )
    .command(command(schema, "job show", &job.to_string()));
    Finding::new(FindingCode::JobExpired, Severity::Warning, format!("kind {}", plain(kind)), seen, remedy)
        .with(expired)
}

pub(super) fn unreadable(schema: &SchemaName, unreadable: &UnreadableJobs) -> Finding {
    let UnreadableJobs { kind, queue, is_discarded, jobs, job, problem } = unreadable;
    let (severity, are) = match is_discarded {
        true => (Severity::Notice, "were discarded, since their rows cannot be read"),
        false => (Severity::Warning, "cannot be read, so that no runner takes them"),
    };
    let seen = format!(
        "{} of queue {} {are}, such as {job}: {}",
        counted_jobs(JobCount::Exactly(jobs.unsigned_abs())),
        plain(queue),
        plain(problem)
    );
    let advice = match is_discarded {
        true => {
            "A row that is too large: insert its job with smaller args. A damaged row: check the disk and the file system, \
             and restore it from a backup. Then delete the discarded job"
        }
        false => {
            "See the log of a runner of the queue: it discards such jobs, and says what keeps it from that. Check the disk \
             and the file system, and restore the row from a backup. Or delete the job"
        }
    };
    let remedy = Remedy::advice(advice).sql(store::sql_to_delete(schema, *job)).command(command(
        schema,
        "job delete",
        &job.to_string(),
    ));
    Finding::new(FindingCode::JobUnreadable, severity, format!("kind {}", plain(kind)), seen, remedy).with(unreadable)
}

pub(super) fn slow(schema: &SchemaName, slow: &SlowJobs) -> Finding {
    let jobs = match slow.jobs {
        1 => "1 job has been running".to_owned(),
        jobs => format!("{} jobs have been running", thousands(jobs.unsigned_abs())),
    };
    let seen = format!(
        "{jobs} in queue {} for up to {}, such as {}; 95 of 100 of {} completed ones took at most {}; the runner is alive",
        plain(&slow.queue),
        age(slow.oldest_age),
        slow.job,
        thousands(slow.runs.unsigned_abs()),
        short(slow.usual)
    );
    let remedy = Remedy::advice(
        "See what it waits for: a lock, a slow service, or a connection that fell silent, over which no answer comes any \
         more. A timeout (Runner::timeout, WorkerOptions::timeout) ends such attempts and frees their slots. Or \
         cancel the job",
    )
    .sql(store::sql_to_cancel(schema, slow.job))
    .command(command(schema, "job cancel", &slow.job.to_string()));
    Finding::new(FindingCode::JobSlow, Severity::Warning, format!("kind {}", plain(&slow.kind)), seen, remedy)
        .with(slow)
}

/// A duration in seconds that may be short, such as `30 ms`.
fn short(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.0} ms", (seconds * 1_000.0).max(1.0)) } else { age(seconds) }
}

pub(super) fn idle_claims(schema: &SchemaName, claims: &IdleClaims) -> Finding {
    let keys = counted(claims.keys.unsigned_abs(), "key is", "keys are");
    let why = match claims.state.as_str() {
        "pending" => "a pending job waits until it is released",
        "running" => "its runner is dead",
        _ => "its unique states include that state, until it is deleted",
    };
    let severity = if claims.state == "running" { Severity::Warning } else { Severity::Notice };
    let seen = format!(
        "{keys} held by {} jobs for up to {}, and every insert with such a key is a duplicate: {why}; such as job {} \
         with key {:?}",
        claims.state,
        age(claims.oldest_age),
        claims.holder,
        claims.unique_key
    );
    let advice = match claims.state.as_str() {
        "pending" => "Release or delete the job, or free its key if it is needed again",
        _ => "Free the key if it is needed again. A scope without this state avoids it",
    };
    let remedy = Remedy::advice(advice).sql(store::sql_to_release_claim(schema, &claims.unique_key)).command(command(
        schema,
        "unique release",
        &claims.unique_key,
    ));
    let subject = format!("kind {}", plain(&claims.kind));
    Finding::new(FindingCode::ClaimIdle, severity, subject, seen, remedy).with(claims)
}

pub(super) fn neglected(schema: &SchemaName, neglected: &Neglected) -> Finding {
    let name = plain(&neglected.name);
    let late = age(neglected.late_by.unwrap_or(0.0));
    if neglected.what == "periodic" {
        let (severity, seen) = match &neglected.problem {
            Some(problem) => (Severity::Critical, format!("its slots cannot be run: {}", plain(problem))),
            None if neglected.is_unseen => {
                (Severity::Warning, format!("no runner has read it in the {late} since it was defined or resumed"))
            }
            None => (Severity::Warning, format!("its slot passed {late} ago, and no runner has run it")),
        };
        let remedy =
            Remedy::advice("Correct its row, or its definition in the code. Start a runner where none is live")
                .sql(store::sql_to_show(schema, "periodic", "name", &neglected.name));
        let subject = format!("periodic job {name}");
        return Finding::new(FindingCode::PeriodicProblem, severity, subject, seen, remedy).with(neglected);
    }
    let without = match neglected.name.as_str() {
        "promoter" => "scheduled and failed jobs do not become available",
        "expirer" => "expired jobs wait and keep their unique keys",
        "rescuer" => "the jobs of dead runners stay running",
        "pruner" => "final jobs are kept for ever",
        "periodic" => "periodic jobs are not inserted",
        "releaser" => "jobs that wait for other jobs stay pending",
        "reindexer" => "bloated indexes are not rebuilt",
        _ => "its work is not done",
    };
    let subject = format!("service {name}");
    if neglected.is_off {
        let severity = if neglected.name == "reindexer" { Severity::Notice } else { Severity::Warning };
        let remedy = Remedy::advice("Switch it on again").sql(store::sql_to_serve(schema, &neglected.name));
        let seen = format!("it is switched off for all runners: {without}");
        return Finding::new(FindingCode::ServiceOff, severity, subject, seen, remedy).with(neglected);
    }
    let remedy = Remedy::advice(
        "See the runners' logs: their maintenance may fail, or lack a privilege that the guide for operators lists for a worker",
    )
    .sql(store::sql_to_show(schema, "maintenance", "service", &neglected.name));
    let seen = format!("no runner has run it for {late}, although runners are live: {without}");
    Finding::new(FindingCode::ServiceIdle, Severity::Warning, subject, seen, remedy).with(neglected)
}

pub(super) fn retention(schema: &SchemaName, overdue: &Overdue, limits: &Thresholds) -> Option<Finding> {
    let severity = limits.retention.judge_age(overdue.overdue_by)?;
    let pruner = match overdue.has_pruner {
        true => "the pruner runs and cannot keep up, or a transaction has them locked",
        false => "no live runner has the pruner's lease",
    };
    let seen = format!(
        "at least {} {} jobs are past their retention of {} by up to {}; {pruner}",
        thousands(overdue.overdue.unsigned_abs()),
        overdue.state,
        overdue.keep,
        age(overdue.overdue_by)
    );
    let advice = match overdue.has_pruner {
        true => {
            "Keep fewer jobs (a retention of 0 deletes completed ones at once), let the pruner run more often \
                 (Runner::prune_interval), or delete by hand, a batch at a time until nothing is deleted"
        }
        false => "Start a runner, or delete by hand, a batch at a time until nothing is deleted",
    };
    let queue = &overdue.queue;
    let sql = store::sql_to_prune(schema, queue, &overdue.state, &overdue.keep);
    let subject = format!("queue {}", plain(queue));
    Some(
        Finding::new(FindingCode::RetentionLate, severity, subject, seen, Remedy::advice(advice).sql(sql))
            .with(overdue),
    )
}
