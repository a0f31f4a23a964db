//! The demo's report, as text and as JSON.

use std::time::{Duration, Instant};

use indicatif::HumanBytes;
use serde::{Deserialize, Serialize};
use uniqueue::Duplicate;

use super::files::LeftOut;
use crate::output::{count, counted, format_duration, printable, width, wrap};

/// The largest number of unreadable and failed files in the text.
const LISTED: usize = 10;

/// The results of a run.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// The path that was searched.
    pub(super) path: String,
    pub(super) database: DatabaseFacts,
    /// The size of the files when they were found.
    pub(super) bytes: u64,
    pub(super) left_out: LeftOut,
    #[serde(flatten)]
    pub(super) inserts: Inserts,
    #[serde(flatten)]
    tally: Tally,
    pub(super) seconds: Seconds,
    /// Whether every file is accounted for.
    pub(super) accounted: bool,
    /// The checks that failed.
    problems: Vec<String>,
}

/// The outcome of the inserts.
#[derive(Debug, Default, Serialize)]
pub(super) struct Inserts {
    /// New jobs.
    pub(super) inserted: u64,
    /// Files whose job an interrupted run had left in the queue.
    pub(super) adopted: u64,
    /// Second inserts that returned the job of the first.
    pub(super) duplicates: u64,
    /// The first of them.
    pub(super) duplicate_example: Option<Example>,
    /// Jobs that the second inserts stored, which must be none.
    pub(super) stored_twice: u64,
}

/// A duplicate: its path, and the job that holds its key.
#[derive(Debug, Serialize)]
pub(super) struct Example {
    pub(super) path: String,
    #[serde(flatten)]
    pub(super) duplicate: Duplicate,
}

/// The counts of a run, as `tally.sql` adds them up.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Tally {
    files: u64,
    stored: u64,
    completed: u64,
    discarded: u64,
    cancelled: u64,
    /// Jobs that needed more than one attempt.
    retried: u64,
    attempts: u64,
    missing: u64,
    extra: u64,
    /// Files whose size was different when they were read.
    changed: u64,
    bytes_read: u64,
    lines: u64,
    /// How long the work took, in seconds.
    #[serde(skip_serializing)]
    work: Option<f64>,
    /// The rate of completed jobs from the first start to the last completion.
    jobs_per_second: Option<f64>,
    insert_to_start: InsertToStart,
    failures: Vec<FailedFile>,
}

/// How long jobs with one attempt waited, from the start of the transaction that inserted them, in seconds.
#[derive(Debug, Default, Deserialize, Serialize)]
struct InsertToStart {
    p50: Option<f64>,
    p99: Option<f64>,
}

/// A file whose job was discarded, and why.
#[derive(Debug, Deserialize, Serialize)]
struct FailedFile {
    path: String,
    attempts: u64,
    error: String,
}

/// The database and the queue in it.
#[derive(Debug, Default, Serialize)]
pub(super) struct DatabaseFacts {
    pub(super) version: String,
    /// Whether it is a throw-away server.
    pub(super) embedded: bool,
    /// The URL of a throw-away server that is kept. Other URLs are left out, because they may hold a password.
    pub(super) url: Option<String>,
    pub(super) schema: String,
    pub(super) run: uuid::Uuid,
}

/// How long each step took.
#[derive(Debug, Default, Serialize)]
pub(super) struct Seconds {
    pub(super) search: f64,
    pub(super) insert: f64,
    pub(super) insert_again: f64,
    work: f64,
}

impl Seconds {
    /// The seconds since then, to the thousandth.
    pub(super) fn since(begun_at: Instant) -> f64 {
        (begun_at.elapsed().as_secs_f64() * 1000.0).round() / 1000.0
    }
}

impl Report {
    /// Adds the end of the work, and checks the run.
    pub(super) fn check(&mut self, files: u64, tally: Tally) {
        let ended = tally.completed + tally.discarded + tally.cancelled;
        let checks = [
            (files, tally.files, "file", "recorded"),
            (files, tally.stored, "job", "stored"),
            (files, self.inserts.duplicates, "duplicate", "at the second insert"),
            (0, self.inserts.stored_twice, "job", "by which duplicates changed the queue"),
            (files, ended, "final job", "at the end"),
            (0, tally.cancelled, "job", "cancelled"),
            (0, tally.missing, "completed job", "without a checksum"),
            (0, tally.extra, "checksum", "of a job that is not completed"),
        ];
        for (expected, actual, thing, what) in checks {
            if actual != expected {
                let found = if expected == 0 { String::new() } else { format!("{} found, ", counted(files, "file")) };
                self.problems.push(format!("{found}{} {what}", counted(actual, thing)));
            }
        }
        self.accounted = self.problems.is_empty();
        self.seconds.work = tally.work.unwrap_or_default();
        self.tally = tally;
    }

    /// The summary as text.
    pub(super) fn text(&self) -> String {
        let database = &self.database;
        let owner = if database.embedded { "of its own" } else { "that you gave" };
        let bytes = HumanBytes(self.bytes).to_string().replace(" B", " bytes");
        let what = format!("{} under {}, {bytes}", counted(self.tally.files, "file"), self.path);
        let on = format!("PostgreSQL {} {owner}, schema {}", database.version, database.schema);
        let mut text = entry("Demo", &what) + &entry("", &on) + "\n";
        let (inserted, insert) = (counted(self.inserts.inserted, "job"), time(self.seconds.insert));
        text +=
            &entry("Inserted", &format!("{inserted} in {insert}, in one transaction with the rows of an application"));
        text += &entry("Duplicates", &self.duplicates_text());
        text += &entry("Worked", &self.worked_text());
        text += &self.notes();
        text.push('\n');
        for problem in &self.problems {
            text += &format!("NOT ACCOUNTED FOR: {problem}\n");
        }
        text + if self.accounted { "Every file is accounted for.\n" } else { "" }
    }

    fn duplicates_text(&self) -> String {
        let time = time(self.seconds.insert_again);
        let count = count(self.inserts.duplicates);
        let Some(Example { path, duplicate }) = &self.inserts.duplicate_example else { return count };
        format!(
            "{count}: all jobs were inserted again in {time}. A job with the same kind, path and size was there for each, so the \
             insert returned that job and stored nothing. For example {path}: job {} ({}) claims its key, which is free {}",
            duplicate.holder,
            duplicate.holder_state,
            duplicate.frees()
        )
    }

    fn worked_text(&self) -> String {
        let Tally { completed, discarded, retried, insert_to_start, .. } = &self.tally;
        let (jobs, time_taken) = (counted(completed + discarded, "job"), time(self.seconds.work));
        let [completed, discarded, retried] = [completed, discarded, retried].map(|number| count(*number));
        let mut text =
            format!("{jobs} in {time_taken}: {completed} completed, {discarded} discarded, {retried} retried");
        if let Some(rate) = self.tally.jobs_per_second {
            text += &format!("; {} jobs a second", count(rate as u64));
        }
        if let InsertToStart { p50: Some(half), p99: Some(most) } = insert_to_start {
            let (half, most) = (time(*half), time(*most));
            text += &format!(
                ". Half of them started within {half} of their insert and 99 % within {most}, behind the backlog of both inserts"
            );
        }
        text
    }

    /// The entries that only some runs have.
    fn notes(&self) -> String {
        let (left_out, tally, mut notes) = (&self.left_out, &self.tally, String::new());
        let names = format!(" named {} (--all)", left_out.excluded_names.join(" or "));
        for (name, number, thing, which) in [
            ("Taken over", self.inserts.adopted, "job", " that an interrupted demo left"),
            ("Changed", tally.changed, "file", " of another size when read"),
            ("Left out", left_out.excluded_directories, "directory tree", &names),
            ("Left out", left_out.symbolic_links, "symbolic link", ""),
            ("Left out", left_out.special_files, "special file", " (sockets, pipes, devices)"),
        ] {
            if number > 0 {
                notes += &entry(name, &format!("{}{which}", counted(number, thing)));
            }
        }
        let unreadable = left_out.unreadable.iter().map(|reason| entry("Unreadable", reason));
        let failed = tally.failures.iter().map(|FailedFile { path, attempts, error }| {
            entry("Failed", &format!("{path}, after {}: {error}", counted(*attempts, "attempt")))
        });
        notes.extend(unreadable.chain(failed).take(LISTED));
        let unlisted = (left_out.unreadable.len() + tally.failures.len()).saturating_sub(LISTED);
        if unlisted > 0 {
            notes += &entry("And more", &format!("{} unreadable or failed; --json lists all", count(unlisted as u64)));
        }
        notes
    }
}

/// The width of the names of the entries.
const NAME_WIDTH: usize = 12;

/// An entry of the summary. On a terminal its lines end after words.
fn entry(name: &str, text: &str) -> String {
    let (text, width) = (printable(text), width().map(|width| width.saturating_sub(NAME_WIDTH)));
    let lines: Vec<_> = wrap(&text, width).into_iter().map(str::trim_end).collect();
    format!("{name:NAME_WIDTH$}{}\n", lines.join(&format!("\n{:NAME_WIDTH$}", "")))
}

/// A number of seconds as text.
fn time(seconds: f64) -> String {
    format_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
