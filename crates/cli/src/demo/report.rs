//! The demo's report, as text and as JSON.

use std::time::Duration;

use indicatif::HumanBytes;
use serde::Serialize;

use super::files::{FoundFiles, LeftOut};
use super::insert::Inserts;
use super::statements::Statement;
use super::tables::{FailedFile, Tally};
use crate::output::count;

/// The largest number of failed files in the text.
const LISTED: usize = 10;

/// The results of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The path that was searched.
    pub(super) path: String,
    pub(super) database: DatabaseFacts,
    pub(super) files: u64,
    /// The size of the files when they were found.
    pub(super) bytes: u64,
    /// The bytes that the workers read.
    pub(super) bytes_read: u64,
    pub(super) lines: u64,
    /// Files whose size was different when they were read.
    pub(super) changed: u64,
    pub(super) left_out: LeftOut,
    /// New jobs.
    pub(super) inserted: u64,
    /// Jobs that an interrupted run had left in the queue.
    pub(super) adopted: u64,
    /// Second inserts that were flagged as duplicates.
    pub(super) duplicates: u64,
    /// Jobs that the second inserts stored, which must be none.
    pub(super) stored_twice: u64,
    pub(super) completed: u64,
    /// Jobs that needed more than one attempt.
    pub(super) retried: u64,
    pub(super) discarded: u64,
    pub(super) attempts: u64,
    pub(super) failures: Vec<FailedFile>,
    /// The rate of completed jobs from the first start to the last completion.
    pub(super) jobs_per_second: Option<f64>,
    pub(super) insert_to_start: InsertToStart,
    pub(super) seconds: Seconds,
    /// Whether every file is accounted for.
    pub(super) accounted: bool,
    /// The checks that failed.
    pub(super) problems: Vec<String>,
    pub(super) statements: Vec<Statement>,
}

/// The database and the queue in it.
#[derive(Debug, Serialize)]
pub(super) struct DatabaseFacts {
    pub(super) version: String,
    /// Whether it is a throw-away server.
    pub(super) embedded: bool,
    /// The URL of a throw-away server that is kept. Other URLs are left out, because they may hold a password.
    pub(super) url: Option<String>,
    pub(super) schema: String,
    pub(super) run: uuid::Uuid,
}

/// How long jobs with one attempt waited, from the start of the transaction that inserted them.
#[derive(Debug, Serialize)]
pub(super) struct InsertToStart {
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
}

/// How long each step took.
#[derive(Debug, Serialize)]
pub(super) struct Seconds {
    pub(super) search: f64,
    pub(super) insert: f64,
    pub(super) insert_again: f64,
    pub(super) work: f64,
}

impl Report {
    /// Sums a run up and checks it.
    pub(super) fn new(
        database: DatabaseFacts,
        found: FoundFiles,
        search_time: Duration,
        inserts: &Inserts,
        tally: &Tally,
        failures: Vec<FailedFile>,
        statements: Vec<Statement>,
    ) -> Self {
        let files = found.files.len() as u64;
        let problems = problems(files, inserts, tally);
        let work = tally.work_seconds.unwrap_or_default();
        let percentile =
            |at: usize| tally.start_millis.as_ref().and_then(|millis| millis.get(at)).copied().map(rounded);
        Self {
            path: found.root,
            database,
            files,
            bytes: found.files.iter().map(|file| file.size).sum(),
            bytes_read: tally.bytes_read,
            lines: tally.lines,
            changed: tally.changed,
            left_out: found.left_out,
            inserted: inserts.inserted,
            adopted: inserts.adopted,
            duplicates: inserts.duplicates,
            stored_twice: inserts.stored_twice,
            completed: tally.completed,
            retried: tally.retried,
            discarded: tally.discarded,
            attempts: tally.attempts,
            failures,
            jobs_per_second: (work > 0.0).then(|| rounded(tally.completed as f64 / work)),
            insert_to_start: InsertToStart { p50_ms: percentile(0), p99_ms: percentile(1) },
            seconds: Seconds {
                search: rounded(search_time.as_secs_f64()),
                insert: rounded(inserts.insert_time.as_secs_f64()),
                insert_again: rounded(inserts.duplicate_time.as_secs_f64()),
                work: rounded(work),
            },
            accounted: problems.is_empty(),
            problems,
            statements,
        }
    }

    /// The report as text.
    pub(super) fn text(&self) -> String {
        let database = &self.database;
        let owner = if database.embedded { "of its own" } else { "that you gave" };
        let mut lines = vec![
            format!("{}, on PostgreSQL {} {owner}, schema {}", self.path, database.version, database.schema),
            String::new(),
            line("files", count(self.files), &format!("found in {} s", self.seconds.search)),
            line("bytes", count(self.bytes), &format!("{}, {} lines", HumanBytes(self.bytes), count(self.lines))),
            line(
                "inserted",
                count(self.inserted),
                &format!("in {} s, in one transaction with the rows of an application", self.seconds.insert),
            ),
            line(
                "duplicates",
                count(self.duplicates),
                &format!("all inserted again in {} s; stored: {}", self.seconds.insert_again, count(self.stored_twice)),
            ),
            line("completed", count(self.completed), &format!("in {} s", self.seconds.work)),
            line("retried", count(self.retried), &format!("{} attempts in all", count(self.attempts))),
            line("discarded", count(self.discarded), ""),
            line("jobs/s", or_none(self.jobs_per_second.map(|rate| count(rate as u64))), ""),
            line(
                "insert to start",
                or_none(self.insert_to_start.p50_ms.map(|millis| format!("{millis:.1} ms"))),
                &format!(
                    "p50; p99 {}. The workers started after both inserts, so jobs waited behind the whole backlog",
                    or_none(self.insert_to_start.p99_ms.map(|millis| format!("{millis:.1} ms")))
                ),
            ),
        ];
        lines.extend(self.notes());
        lines.push(String::new());
        lines.extend(self.statements.iter().map(Statement::text));
        lines.extend(self.problems.iter().map(|problem| format!("NOT ACCOUNTED FOR: {problem}")));
        if self.accounted {
            lines.push("Every file is accounted for.".to_owned());
        }
        lines.join("\n") + "\n"
    }

    /// The lines that only some runs have.
    fn notes(&self) -> Vec<String> {
        let LeftOut { excluded_names, excluded_directories, symbolic_links, special_files, unreadable } =
            &self.left_out;
        let mut notes = Vec::new();
        if self.adopted > 0 {
            notes.push(line("adopted", count(self.adopted), "left in the queue by an interrupted demo"));
        }
        if self.changed > 0 {
            notes.push(line("changed", count(self.changed), "had a different size when they were read"));
        }
        if *excluded_directories > 0 {
            let reason = format!("directories named {}; --all includes them", excluded_names.join(" or "));
            notes.push(line("left out", count(*excluded_directories), &reason));
        }
        if *symbolic_links > 0 {
            notes.push(line("left out", count(*symbolic_links), "symbolic links"));
        }
        if *special_files > 0 {
            notes.push(line("left out", count(*special_files), "sockets, pipes and devices"));
        }
        for reason in unreadable.iter().take(LISTED) {
            notes.push(line("unreadable", reason.clone(), ""));
        }
        for FailedFile { path, attempts, error } in self.failures.iter().take(LISTED) {
            notes.push(line("failed", path.clone(), &format!("after {attempts} attempts: {error}")));
        }
        let unlisted = unreadable.len().saturating_sub(LISTED) + self.failures.len().saturating_sub(LISTED);
        if unlisted > 0 {
            notes.push(line("and more", count(unlisted as u64), "unreadable or failed; --json lists them all"));
        }
        notes
    }
}

/// The checks that failed.
fn problems(files: u64, inserts: &Inserts, tally: &Tally) -> Vec<String> {
    let ended = tally.completed + tally.discarded + tally.cancelled;
    let checks = [
        (tally.files == files, format!("{files} files found, {} recorded", tally.files)),
        (tally.stored == files, format!("{files} files found, {} jobs stored", tally.stored)),
        (inserts.duplicates == files, format!("{files} files inserted again, {} duplicates", inserts.duplicates)),
        (inserts.stored_twice == 0, format!("duplicates changed the queue by {} jobs", inserts.stored_twice)),
        (ended == files, format!("{files} files found, {ended} jobs ended")),
        (tally.cancelled == 0, format!("{} jobs were cancelled", tally.cancelled)),
        (tally.missing == 0, format!("{} completed jobs have no checksum", tally.missing)),
        (tally.extra == 0, format!("{} jobs have a checksum and are not completed", tally.extra)),
    ];
    checks.into_iter().filter_map(|(is_right, problem)| (!is_right).then_some(problem)).collect()
}

fn line(name: &str, value: String, remark: &str) -> String {
    let whole = if remark.is_empty() { value } else { format!("{value:<12}  {remark}") };
    format!("{name:<16}{whole}")
}

fn or_none(value: Option<String>) -> String {
    value.unwrap_or_else(|| "none".to_owned())
}

/// Rounds to thousandths.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
