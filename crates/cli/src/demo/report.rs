//! The demo's report, as text and as JSON.

use std::time::Duration;

use indicatif::HumanBytes;
use serde::Serialize;

use super::files::{FoundFiles, LeftOut};
use super::insert::{Example, Inserts};
use super::statements::Statement;
use super::tables::{FailedFile, Tally};
use crate::output::{count, counted, format_duration, printable, width, wrap};

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
    /// One of them.
    pub(super) duplicate_example: Option<Example>,
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

/// How long jobs with one attempt waited, from the start of the transaction that inserted them, in seconds.
#[derive(Debug, Serialize)]
pub(super) struct InsertToStart {
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
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
        let percentile = |at: usize| {
            tally
                .start_millis
                .as_ref()
                .and_then(|millis| millis.get(at))
                .copied()
                .map(|millis| rounded(millis / 1_000.0))
        };
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
            duplicate_example: inserts.example.clone(),
            stored_twice: inserts.stored_twice,
            completed: tally.completed,
            retried: tally.retried,
            discarded: tally.discarded,
            attempts: tally.attempts,
            failures,
            jobs_per_second: (work > 0.0).then(|| rounded(tally.completed as f64 / work)),
            insert_to_start: InsertToStart { p50: percentile(0), p99: percentile(1) },
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

    /// The summary as text, and with `tables` the results of the statements.
    pub(super) fn text(&self, tables: bool) -> String {
        let database = &self.database;
        let owner = if database.embedded { "of its own" } else { "that you gave" };
        let what = format!(
            "{} under {}, {}",
            counted(self.files, "file"),
            self.path,
            HumanBytes(self.bytes).to_string().replace(" B", " bytes")
        );
        let on = format!("PostgreSQL {} {owner}, schema {}", database.version, database.schema);
        let mut text = entry("Demo", &what) + &entry("", &on) + "\n";
        text += &entry("Inserted", &self.inserted_text());
        text += &entry("Duplicates", &self.duplicates_text());
        text += &entry("Worked", &self.worked_text());
        text += &self.notes();
        text.push('\n');
        if tables {
            text += &self.statements.iter().map(Statement::text).collect::<Vec<_>>().join("\n");
            text.push('\n');
        }
        for problem in &self.problems {
            text += &format!("NOT ACCOUNTED FOR: {problem}\n");
        }
        if self.accounted {
            text += "Every file is accounted for.\n";
        }
        text
    }

    fn inserted_text(&self) -> String {
        let adopted = match self.adopted {
            0 => String::new(),
            adopted => format!(", and {} that an interrupted demo left were taken over", counted(adopted, "job")),
        };
        let (jobs, time) = (counted(self.inserted, "job"), time(self.seconds.insert));
        format!("{jobs} in {time}, in one transaction with the rows of an application{adopted}")
    }

    fn duplicates_text(&self) -> String {
        let time = time(self.seconds.insert_again);
        let count = count(self.duplicates);
        let Some(Example { path, duplicate }) = &self.duplicate_example else { return count };
        format!(
            "{count}: all jobs were inserted again in {time}. A job with the same kind, path and size was there for each, so the \
             insert returned that job and stored nothing. For example {path}: job {} ({}) claims its key, which is free {}",
            duplicate.holder,
            duplicate.holder_state,
            duplicate.frees()
        )
    }

    fn worked_text(&self) -> String {
        let mut text = format!(
            "{} in {}: {} completed, {} discarded, {} retried",
            counted(self.completed + self.discarded, "job"),
            time(self.seconds.work),
            count(self.completed),
            count(self.discarded),
            count(self.retried)
        );
        if let Some(rate) = self.jobs_per_second {
            text += &format!("; {} jobs a second", count(rate as u64));
        }
        if let (Some(half), Some(most)) = (self.insert_to_start.p50, self.insert_to_start.p99) {
            text += &format!(
                ". Half of them started within {} of their insert and 99 % within {}, behind the backlog of both inserts",
                time(half),
                time(most)
            );
        }
        text
    }

    /// The entries that only some runs have.
    fn notes(&self) -> String {
        let LeftOut { excluded_names, excluded_directories, symbolic_links, special_files, unreadable } =
            &self.left_out;
        let mut notes = String::new();
        if self.changed > 0 {
            notes += &entry("Changed", &format!("{} had another size when read", counted(self.changed, "file")));
        }
        let mut left_out = Vec::new();
        if *excluded_directories > 0 {
            let directories = if *excluded_directories == 1 { "directory" } else { "directories" };
            let names = excluded_names.join(" or ");
            left_out.push(format!("{} {directories} named {names} (--all)", count(*excluded_directories)));
        }
        if *symbolic_links > 0 {
            left_out.push(counted(*symbolic_links, "symbolic link"));
        }
        if *special_files > 0 {
            left_out.push(format!("{} (sockets, pipes, devices)", counted(*special_files, "special file")));
        }
        if !left_out.is_empty() {
            notes += &entry("Left out", &left_out.join("; "));
        }
        for reason in unreadable.iter().take(LISTED) {
            notes += &entry("Unreadable", reason);
        }
        for FailedFile { path, attempts, error } in self.failures.iter().take(LISTED) {
            let attempts = counted(u64::from(attempts.unsigned_abs()), "attempt");
            notes += &entry("Failed", &format!("{path}, after {attempts}: {error}"));
        }
        let unlisted = unreadable.len().saturating_sub(LISTED) + self.failures.len().saturating_sub(LISTED);
        if unlisted > 0 {
            notes += &entry("And more", &format!("{} unreadable or failed; --json lists all", count(unlisted as u64)));
        }
        notes
    }
}

/// The checks that failed.
fn problems(files: u64, inserts: &Inserts, tally: &Tally) -> Vec<String> {
    let ended = tally.completed + tally.discarded + tally.cancelled;
    let found = format!("{} found", counted(files, "file"));
    let checks = [
        (tally.files == files, format!("{found}, {} recorded", count(tally.files))),
        (tally.stored == files, format!("{found}, {} stored", counted(tally.stored, "job"))),
        (
            inserts.duplicates == files,
            format!("{found}, {} at the second insert", counted(inserts.duplicates, "duplicate")),
        ),
        (
            inserts.stored_twice == 0,
            format!("duplicates changed the queue by {}", counted(inserts.stored_twice, "job")),
        ),
        (ended == files, format!("{found}, {} at the end", counted(ended, "final job"))),
        (tally.cancelled == 0, counted(tally.cancelled, "cancelled job")),
        (tally.missing == 0, format!("{} without a checksum", counted(tally.missing, "completed job"))),
        (tally.extra == 0, format!("{} of a job that is not completed", counted(tally.extra, "checksum"))),
    ];
    checks.into_iter().filter_map(|(is_right, problem)| (!is_right).then_some(problem)).collect()
}

/// The width of the names of the entries.
const NAME_WIDTH: usize = 12;

/// An entry of the summary. On a terminal its lines end after words.
fn entry(name: &str, text: &str) -> String {
    let text = printable(text);
    let width = width().map(|width| width.saturating_sub(NAME_WIDTH));
    let mut name = Some(name);
    let lines = wrap(&text, width).into_iter().map(|line| {
        let name = name.take().unwrap_or_default();
        format!("{name:NAME_WIDTH$}{}\n", line.trim_end())
    });
    lines.collect()
}

/// A number of seconds as text.
fn time(seconds: f64) -> String {
    format_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// Rounds to thousandths.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
