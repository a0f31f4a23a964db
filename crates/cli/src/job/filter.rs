//! The options that select jobs.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgMatches, Command, FromArgMatches};
use time::format_description::well_known::Rfc3339;
use uniqueue::StateSet;

use crate::output::shell_word;
use crate::prelude::*;

/// Reads a state. It lists the states for the help, for errors, and for the completion of a shell.
fn states() -> impl TypedValueParser<Value = JobState> {
    let names = JobState::ALL.map(JobState::as_str);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<JobState>())
}

/// Checks a time, which is read when the time of the database is known.
fn time(given: &str) -> Result<String, &'static str> {
    given.parse().map(|_: TimeArgument| given.to_owned())
}

/// Checks a length of time. As a time it is that long ago.
fn length(given: &str) -> Result<String, &'static str> {
    given.parse().map(|_: DurationArgument| given.trim().trim_start_matches('+').to_owned())
}

/// Conditions on jobs. A job must meet all of them. As a document it is a [`JobFilter`], except for the times and what files hold.
#[derive(Clone, Debug, Default, Args, Serialize)]
#[command(next_help_heading = "Which jobs")]
struct Conditions {
    /// In this state; repeat it, or separate states with commas
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',', value_parser = states())]
    states: Option<Vec<JobState>>,

    /// In this queue; repeat it for several
    #[arg(long = "queue", value_name = "NAME")]
    queues: Option<Vec<String>>,

    /// Of this kind; repeat it for several
    #[arg(long = "kind", value_name = "NAME")]
    kinds: Option<Vec<String>>,

    /// Claiming this unique key now
    #[arg(long = "key", value_name = "KEY", value_parser = unique_key)]
    unique_key: Option<String>,

    /// In this group of a queue
    #[arg(long, value_name = "KEY")]
    group: Option<String>,

    /// With args that contain this, by the rules of PostgreSQL's @>; also @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    #[serde(skip)]
    args: Option<JsonArgument>,

    /// With args in which this SQL/JSON path finds something, as PostgreSQL's @?
    #[arg(long, value_name = "PATH")]
    args_path: Option<String>,

    /// With meta that contains this
    #[arg(long, value_name = "JSON")]
    #[serde(skip)]
    meta: Option<JsonArgument>,

    /// With this priority
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i16>,

    /// Started at least this many times
    #[arg(long, value_name = "N")]
    attempts_at_least: Option<u16>,

    /// Jobs whose last error has this code, such as card_declined or expired
    #[arg(long = "code", value_name = "CODE")]
    error_code: Option<String>,

    /// Jobs whose last error has this first line, with a # for each word with a digit
    #[arg(long, value_name = "TEXT")]
    error_pattern: Option<String>,

    /// Inserted longer ago than this, such as 2h
    #[arg(long, value_name = "DURATION", value_parser = length, conflicts_with = "created_before")]
    #[serde(skip)]
    older_than: Option<String>,

    /// Inserted no longer ago than this, such as 15m
    #[arg(long, value_name = "DURATION", value_parser = length, conflicts_with = "created_after")]
    #[serde(skip)]
    newer_than: Option<String>,

    /// Inserted at this time or later: RFC 3339, a date, or how long ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    created_after: Option<String>,

    /// Inserted before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    created_before: Option<String>,

    /// Scheduled at this time or later; +2h is in two hours
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    scheduled_after: Option<String>,

    /// Scheduled before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    scheduled_before: Option<String>,

    /// With a latest attempt that started at this time or later
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    attempted_after: Option<String>,

    /// With a latest attempt that started before this time; with --state running, jobs that have run since then
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    attempted_before: Option<String>,

    /// Completed, cancelled or discarded at this time or later
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    finalized_after: Option<String>,

    /// Completed, cancelled or discarded before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    finalized_before: Option<String>,

    /// With a last error of this time or later, whatever became of the job since
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    failed_after: Option<String>,

    /// With a last error before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    failed_before: Option<String>,

    /// Without the job of this id; repeat it for several
    #[arg(long = "except", value_name = "ID")]
    except_ids: Option<Vec<JobId>>,
}

/// The options that select jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct FilterArguments {
    conditions: Conditions,
    /// The conditions except the states, as given: the names of options and their values.
    given: Vec<(String, String)>,
}

impl FromArgMatches for FilterArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let conditions = Conditions::from_arg_matches(matches)?;
        let command = Conditions::augment_args(Command::new(""));
        let mut given = Vec::new();
        for argument in command.get_arguments().filter(|argument| argument.get_id() != "states") {
            let values = matches.get_raw(argument.get_id().as_str()).into_iter().flatten();
            let name = argument.get_long().unwrap_or_default();
            given.extend(values.map(|value| (name.to_owned(), value.to_string_lossy().into_owned())));
        }
        Ok(Self { conditions, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for FilterArguments {
    fn augment_args(command: Command) -> Command {
        Conditions::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Conditions::augment_args_for_update(command)
    }
}

impl FilterArguments {
    /// Whether there is no condition.
    pub(super) fn is_empty(&self) -> bool {
        self.conditions.states.is_none() && self.given.is_empty()
    }

    /// The conditions as on the command line, with these states, for a question.
    pub(super) fn describe(&self, states: StateSet) -> String {
        let states = states.iter().map(JobState::as_str).collect::<Vec<_>>().join(",");
        let mut words = vec![format!("--state {states}")];
        words.extend(self.given.iter().map(|(name, value)| format!("--{name} {}", printable(&shell_word(value)))));
        words.join(" ")
    }

    /// The states to select. `None` means all.
    pub(super) fn states(&self) -> Option<StateSet> {
        self.conditions.states.as_deref().map(StateSet::of)
    }

    /// The filter, with times relative to the database's time. Without conditions it selects all jobs.
    pub(super) async fn filter(self, client: &uniqueue::Client) -> Result<JobFilter, Failure> {
        let is_timed = self.given.iter().any(|(name, _)| name.ends_with("-than") || is_time(&name.replace('-', "_")));
        let now = if is_timed { client.database_time().await? } else { OffsetDateTime::UNIX_EPOCH };
        self.at(now)
    }

    /// The filter without the jobs that are inserted from now on. A confirmation that takes long then covers no other
    /// jobs than the question named.
    pub(super) async fn filter_of_existing_jobs(self, client: &uniqueue::Client) -> Result<JobFilter, Failure> {
        let now = client.database_time().await?;
        let Conditions { created_before, older_than, .. } = &self.conditions;
        let before = created_before.as_ref().or(older_than.as_ref()).and_then(|text| text.parse::<TimeArgument>().ok());
        let before = before.map_or(now, |moment| moment.at(now).min(now));
        Ok(self.at(now)?.created_before(before))
    }

    fn at(self, now: OffsetDateTime) -> Result<JobFilter, Failure> {
        let all = self.is_empty().then_some(true);
        let Conditions { args, meta, older_than, newer_than, .. } = &self.conditions;
        let mut document = json!(&self.conditions);
        document["all"] = json!(all);
        for (name, json) in [("args", args), ("meta", meta)] {
            document[name] = json.as_ref().map(|json| json.value(&format!("--{name}"))).transpose()?.into();
        }
        for (name, length) in [("created_before", older_than), ("created_after", newer_than)] {
            if let Some(length) = length {
                document[name] = length.as_str().into();
            }
        }
        for (_, value) in document.as_object_mut().into_iter().flatten().filter(|(name, _)| is_time(name)) {
            if let Some(moment) = value.as_str().and_then(|text| text.parse::<TimeArgument>().ok()) {
                let at = moment.at(now);
                // RFC 3339 has no years beyond these. A filter refuses them as well, and names the condition.
                let beyond = if at.year() < 0 { "0000-01-01T00:00:00Z" } else { "9999-12-31T00:00:00Z" };
                *value = at.format(&Rfc3339).unwrap_or_else(|_| beyond.to_owned()).into();
            }
        }
        serde_json::from_value(document)
            .map_err(|error| Failure::refused(format!("not a filter: {error}"), "see --help"))
    }
}

/// Whether a member of the document is a time.
fn is_time(name: &str) -> bool {
    name.ends_with("_after") || name.ends_with("_before")
}
