//! The demo's report, as text and as JSON.

use std::time::Duration;

use indicatif::HumanBytes;
use serde::{Deserialize, Serialize};

use super::args::DemoArguments;
use super::files::{FoundFiles, LeftOut};
use super::insert::{Example, Inserts};
use crate::database;
use crate::output::{count, counted, format_duration, own_command, printable, shell_word, width, wrap};

/// The largest number of failed files in the text.
const LISTED: usize = 10;

/// The results of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The path that was searched.
    path: String,
    database: DatabaseFacts,
    /// The size of the files when they were found.
    bytes: u64,
    left_out: LeftOut,
    #[serde(flatten)]
    inserts: Inserts,
    #[serde(flatten)]
    tally: Tally,
    /// The rate of completed jobs from the first start to the last completion.
    jobs_per_second: Option<f64>,
    seconds: Seconds,
    /// Whether every file is accounted for.
    pub(super) accounted: bool,
    /// The checks that failed.
    problems: Vec<String>,
}

/// The counts of a run, as `tally.sql` adds them up.
#[derive(Debug, Deserialize, Serialize)]
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
    insert_to_start: InsertToStart,
    failures: Vec<FailedFile>,
}

/// How long jobs with one attempt waited, from the start of the transaction that inserted them, in seconds.
#[derive(Debug, Deserialize, Serialize)]
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

/// How long each step took.
#[derive(Debug, Serialize)]
struct Seconds {
    search: f64,
    insert: f64,
    insert_again: f64,
    work: f64,
}

impl Report {
    /// Sums a run up and checks it.
    pub(super) fn new(
        database: DatabaseFacts,
        found: FoundFiles,
        search_time: Duration,
        inserts: Inserts,
        tally: Tally,
    ) -> Self {
        let problems = problems(found.files.len() as u64, &inserts, &tally);
        let work = tally.work.unwrap_or_default();
        Self {
            path: found.root,
            database,
            bytes: found.files.iter().map(|file| file.size).sum(),
            left_out: found.left_out,
            jobs_per_second: (work > 0.0).then(|| rounded(tally.completed as f64 / work)),
            seconds: Seconds {
                search: rounded(search_time.as_secs_f64()),
                insert: rounded(inserts.insert_time.as_secs_f64()),
                insert_again: rounded(inserts.duplicate_time.as_secs_f64()),
                work: rounded(work),
            },
            inserts,
            tally,
            accounted: problems.is_empty(),
            problems,
        }
    }

    /// The summary as text.
    pub(super) fn text(&self) -> String {
        let database = &self.database;
        let owner = if database.embedded { "of its own" } else { "that you gave" };
        let what = format!(
            "{} under {}, {}",
            counted(self.tally.files, "file"),
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
        for problem in &self.problems {
            text += &format!("NOT ACCOUNTED FOR: {problem}\n");
        }
        if self.accounted {
            text += "Every file is accounted for.\n";
        }
        text
    }

    fn inserted_text(&self) -> String {
        let adopted = match self.inserts.adopted {
            0 => String::new(),
            adopted => format!(", and {} that an interrupted demo left were taken over", counted(adopted, "job")),
        };
        let (jobs, time) = (counted(self.inserts.inserted, "job"), time(self.seconds.insert));
        format!("{jobs} in {time}, in one transaction with the rows of an application{adopted}")
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
        let mut text = format!(
            "{} in {}: {} completed, {} discarded, {} retried",
            counted(self.tally.completed + self.tally.discarded, "job"),
            time(self.seconds.work),
            count(self.tally.completed),
            count(self.tally.discarded),
            count(self.tally.retried)
        );
        if let Some(rate) = self.jobs_per_second {
            text += &format!("; {} jobs a second", count(rate as u64));
        }
        if let (Some(half), Some(most)) = (self.tally.insert_to_start.p50, self.tally.insert_to_start.p99) {
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
        if self.tally.changed > 0 {
            notes += &entry("Changed", &format!("{} had another size when read", counted(self.tally.changed, "file")));
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
        for FailedFile { path, attempts, error } in self.tally.failures.iter().take(LISTED) {
            let attempts = counted(*attempts, "attempt");
            notes += &entry("Failed", &format!("{path}, after {attempts}: {error}"));
        }
        let unlisted = unreadable.len().saturating_sub(LISTED) + self.tally.failures.len().saturating_sub(LISTED);
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

/// The commands to try next. Each works as it is printed, but that a URL that may have a password is left out.
pub(super) fn next(arguments: &DemoArguments) -> String {
    let command = own_command();
    let path = arguments.path.to_str().filter(|path| *path != ".").map(shell_word);
    let path = path.map(|path| format!(" {path}")).unwrap_or_default();
    let (is_embedded, database) = (database::url(&arguments.database).is_none(), options(arguments));
    let mut lines = Vec::new();
    if !arguments.tables {
        lines.push((format!("{command} demo --tables{path}{database}"), "tables of the queue"));
    }
    if is_embedded && !arguments.keep {
        lines.push((format!("{command} demo --keep{path}{database}"), "keep the database to look around"));
    } else if !is_embedded {
        lines.push((format!("{command} job list --queue demo{database}"), "the jobs"));
        lines.push((format!("{command} top{database}"), "watch the next demo"));
    }
    lines.push((format!("{command} --help"), "all commands"));
    let widest = lines.iter().map(|(command, _)| command.chars().count()).max().unwrap_or_default();
    let lines = lines.iter().map(|(command, purpose)| format!("  {command:<widest$}  {purpose}\n"));
    format!("\nNext:\n{}", lines.collect::<String>())
}

/// The options that lead to the database, where the environment does not give them.
fn options(arguments: &DemoArguments) -> String {
    let is_set = |name: &str, value: &str| std::env::var(name).is_ok_and(|set| set == value);
    let arguments = &arguments.database;
    let mut options = String::new();
    if let Some(url) = database::url(arguments).filter(|url| !is_set("DATABASE_URL", url)) {
        let url = if has_password(url) { "URL".to_owned() } else { shell_word(url) };
        options = format!(" --database-url {url}");
    }
    let schema = arguments.schema.as_str();
    if schema != uniqueue::SchemaName::default().as_str() && !is_set("UNIQUEUE_SCHEMA", schema) {
        options.push_str(&format!(" --schema {schema}"));
    }
    options
}

/// Whether a URL may have a password, as of a user or as a parameter.
fn has_password(url: &str) -> bool {
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    let user = rest.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || rest.contains("password")
}

/// A number of seconds as text.
fn time(seconds: f64) -> String {
    format_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// Rounds to thousandths.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        demo: DemoArguments,
    }

    #[test]
    fn printed_options_have_no_password() {
        let options = |words: &[&str]| options(&Line::parse_from([&["demo"], words].concat()).demo);
        let given = ["--database-url", "postgres://ada@db/app", "--schema", "jobs"];
        assert_eq!(options(&given), " --database-url postgres://ada@db/app --schema jobs");
        for secret in ["postgres://ada:secret@db/app", "postgres://db/app?user=ada&password=secret"] {
            assert_eq!(options(&["--database-url", secret]), " --database-url URL");
        }
    }
}
