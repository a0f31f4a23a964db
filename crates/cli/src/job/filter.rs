//! The options that select jobs.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::Value;
use time::OffsetDateTime;
use uniqueue::{JobFilter, JobId, JobState, StateSet};

use crate::failure::Failure;
use crate::json_argument::JsonArgument;
use crate::output::{printable, shell_word};
use crate::policy_argument::unique_key;
use crate::time_argument::{DurationArgument, TimeArgument};

/// Reads a state. It lists the states for the help, for errors, and for the completion of a shell.
fn states() -> impl TypedValueParser<Value = JobState> {
    let names = JobState::ALL.map(JobState::as_str);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<JobState>())
}

/// Conditions on jobs. A job must meet all of them.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Which jobs")]
pub(super) struct FilterArguments {
    /// In this state; repeat it, or separate states with commas
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = states())]
    pub(super) state: Vec<JobState>,

    /// In this queue; repeat it for several
    #[arg(long, value_name = "NAME")]
    queue: Vec<String>,

    /// Of this kind; repeat it for several
    #[arg(long, value_name = "NAME")]
    kind: Vec<String>,

    /// Claiming this unique key now
    #[arg(long, value_name = "KEY", value_parser = unique_key)]
    key: Option<String>,

    /// In this group of a queue
    #[arg(long, value_name = "KEY")]
    group: Option<String>,

    /// With args that contain this, by the rules of PostgreSQL's @>; also @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    args: Option<JsonArgument>,

    /// With args in which this SQL/JSON path finds something, as PostgreSQL's @?
    #[arg(long, value_name = "PATH")]
    args_path: Option<String>,

    /// With meta that contains this
    #[arg(long, value_name = "JSON")]
    meta: Option<JsonArgument>,

    /// With this priority
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i16>,

    /// Started at least this many times
    #[arg(long, value_name = "N")]
    attempts_at_least: Option<u16>,

    /// Jobs whose last error has this code, such as card_declined or expired
    #[arg(long, value_name = "CODE")]
    code: Option<String>,

    /// Jobs whose last error has this first line, with a # for each word with a digit
    #[arg(long, value_name = "TEXT")]
    error_pattern: Option<String>,

    /// Inserted longer ago than this, such as 2h
    #[arg(long, value_name = "DURATION", conflicts_with = "created_before")]
    older_than: Option<DurationArgument>,

    /// Inserted no longer ago than this, such as 15m
    #[arg(long, value_name = "DURATION", conflicts_with = "created_after")]
    newer_than: Option<DurationArgument>,

    /// Inserted at this time or later: RFC 3339, a date, or how long ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    created_after: Option<TimeArgument>,

    /// Inserted before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    created_before: Option<TimeArgument>,

    /// Scheduled at this time or later; +2h is in two hours
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    scheduled_after: Option<TimeArgument>,

    /// Scheduled before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    scheduled_before: Option<TimeArgument>,

    /// With a latest attempt that started at this time or later
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    attempted_after: Option<TimeArgument>,

    /// With a latest attempt that started before this time; with --state running, jobs that have run since then
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    attempted_before: Option<TimeArgument>,

    /// Completed, cancelled or discarded at this time or later
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    finalized_after: Option<TimeArgument>,

    /// Completed, cancelled or discarded before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    finalized_before: Option<TimeArgument>,

    /// With a last error of this time or later, whatever became of the job since
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    failed_after: Option<TimeArgument>,

    /// With a last error before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    failed_before: Option<TimeArgument>,

    /// Without the job of this id; repeat it for several
    #[arg(long, value_name = "ID")]
    except: Vec<JobId>,
}

impl FilterArguments {
    /// Whether there is no condition.
    pub(super) fn is_empty(&self) -> bool {
        self.state.is_empty() && self.conditions().is_empty()
    }

    /// The conditions as on the command line, with these states, for a question.
    pub(super) fn describe(&self, states: StateSet) -> String {
        let states = states.iter().map(JobState::as_str).collect::<Vec<_>>().join(",");
        let mut words = vec![format!("--state {states}")];
        let conditions = self.conditions();
        words.extend(conditions.iter().map(|(name, value)| format!("--{name} {}", printable(&shell_word(value)))));
        words.join(" ")
    }

    /// The conditions except the states: options and their values.
    fn conditions(&self) -> Vec<(&'static str, String)> {
        // Exhaustive, so that a new condition must be added here.
        let Self {
            state: _,
            queue,
            kind,
            key,
            group,
            args,
            args_path,
            meta,
            priority,
            attempts_at_least,
            code,
            error_pattern,
            older_than,
            newer_than,
            created_after,
            created_before,
            scheduled_after,
            scheduled_before,
            attempted_after,
            attempted_before,
            finalized_after,
            finalized_before,
            failed_after,
            failed_before,
            except,
        } = self;
        let mut conditions: Vec<_> = queue.iter().map(|queue| ("queue", queue.clone())).collect();
        conditions.extend(kind.iter().map(|kind| ("kind", kind.clone())));
        let mut add = |name, value: Option<String>| conditions.extend(value.map(|value| (name, value)));
        add("key", key.clone());
        add("group", group.clone());
        add("args", args.as_ref().map(ToString::to_string));
        add("args-path", args_path.clone());
        add("meta", meta.as_ref().map(ToString::to_string));
        add("priority", priority.map(|priority| priority.to_string()));
        add("attempts-at-least", attempts_at_least.map(|attempts| attempts.to_string()));
        add("code", code.clone());
        add("error-pattern", error_pattern.clone());
        add("older-than", older_than.map(|length| length.to_string()));
        add("newer-than", newer_than.map(|length| length.to_string()));
        for (name, time) in [
            ("created-after", created_after),
            ("created-before", created_before),
            ("scheduled-after", scheduled_after),
            ("scheduled-before", scheduled_before),
            ("attempted-after", attempted_after),
            ("attempted-before", attempted_before),
            ("finalized-after", finalized_after),
            ("finalized-before", finalized_before),
            ("failed-after", failed_after),
            ("failed-before", failed_before),
        ] {
            add(name, time.map(|time| time.to_string()));
        }
        conditions.extend(except.iter().map(|id| ("except", id.to_string())));
        conditions
    }

    /// Whether a condition is relative to the database's time.
    fn needs_now(&self) -> bool {
        let times = [self.created_after, self.created_before, self.scheduled_after, self.scheduled_before];
        let more = [self.attempted_after, self.attempted_before, self.finalized_after, self.finalized_before];
        let failed = [self.failed_after, self.failed_before];
        let mut times = times.into_iter().chain(more).chain(failed);
        self.older_than.is_some() || self.newer_than.is_some() || times.any(|time| time.is_some())
    }

    /// The states to select. `None` means all.
    pub(super) fn states(&self) -> Option<StateSet> {
        (!self.state.is_empty()).then(|| StateSet::of(&self.state))
    }

    /// The filter, with times relative to the database's time. Without conditions it selects all jobs.
    pub(super) async fn filter(self, client: &uniqueue::Client) -> Result<JobFilter, Failure> {
        let now = if self.needs_now() { client.database_time().await? } else { OffsetDateTime::UNIX_EPOCH };
        self.at(now)
    }

    /// The filter without the jobs that are inserted from now on. A confirmation that takes long then covers no other
    /// jobs than the question named.
    pub(super) async fn filter_of_existing_jobs(self, client: &uniqueue::Client) -> Result<JobFilter, Failure> {
        let now = client.database_time().await?;
        let before = self.created_before().map_or(now, |moment| moment.at(now).min(now));
        Ok(self.at(now)?.created_before(before))
    }

    fn created_before(&self) -> Option<TimeArgument> {
        self.created_before.or(self.older_than.map(|DurationArgument(length)| TimeArgument::Ago(length)))
    }

    fn at(self, now: OffsetDateTime) -> Result<JobFilter, Failure> {
        let before = self.created_before();
        let mut filter = if self.is_empty() { JobFilter::all() } else { JobFilter::new() };
        if let Some(states) = self.states() {
            filter = filter.states(states);
        }
        if !self.queue.is_empty() {
            filter = filter.queues(self.queue);
        }
        if !self.kind.is_empty() {
            filter = filter.kinds(self.kind);
        }
        if let Some(key) = self.key {
            filter = filter.unique_key(key);
        }
        if let Some(group) = self.group {
            filter = filter.group(group);
        }
        if let Some(path) = self.args_path {
            filter = filter.args_path(path);
        }
        if !self.except.is_empty() {
            filter = filter.except_ids(self.except);
        }
        for (json, name, set) in [
            (self.args, "--args", JobFilter::args as fn(JobFilter, Value) -> JobFilter),
            (self.meta, "--meta", JobFilter::meta),
        ] {
            if let Some(json) = json {
                filter = set(filter, json.value(name)?);
            }
        }
        if let Some(priority) = self.priority {
            filter = filter.priority(priority);
        }
        if let Some(attempts) = self.attempts_at_least {
            filter = filter.attempts_at_least(attempts);
        }
        if let Some(code) = self.code {
            filter = filter.error_code(code);
        }
        if let Some(pattern) = self.error_pattern {
            filter = filter.error_pattern(pattern);
        }
        let after = self.created_after.or(self.newer_than.map(|DurationArgument(length)| TimeArgument::Ago(length)));
        for (moment, set) in [
            (after, JobFilter::created_after as fn(JobFilter, OffsetDateTime) -> JobFilter),
            (before, JobFilter::created_before),
            (self.scheduled_after, JobFilter::scheduled_after),
            (self.scheduled_before, JobFilter::scheduled_before),
            (self.attempted_after, JobFilter::attempted_after),
            (self.attempted_before, JobFilter::attempted_before),
            (self.finalized_after, JobFilter::finalized_after),
            (self.finalized_before, JobFilter::finalized_before),
            (self.failed_after, JobFilter::failed_after),
            (self.failed_before, JobFilter::failed_before),
        ] {
            if let Some(moment) = moment {
                filter = set(filter, moment.at(now));
            }
        }
        Ok(filter)
    }
}
