//! Changes of jobs: `uniqueue job retry|cancel|discard|delete|reschedule|release|priority`.
//!
//! ```text
//! ids ─────▶ by_id: one statement, and a reason for each job that was not changed ──┤
//! graph ───▶ count, sample, confirm, then one statement ────────────────────────────┤
//! filter ──▶ by_filter: count, sample, confirm, then batch by batch ────────────────┴─▶ report
//! ```

mod by_filter;
mod by_id;
mod report;

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;
use time::OffsetDateTime;
use uniqueue::{Client, JobFilter, JobId, JobState};
use uniqueue_admin::{Admin, Given, JobVerb};

use self::by_filter::{FilteredChange, timed};
use self::report::{Progress, job_count};
use crate::database::{DatabaseArguments, ask};
use crate::exit::{Failure, Verdict};
use crate::interrupt::or_interrupted;
use crate::job::filter::FilterArguments;
use crate::output::{Answer, Form};
use crate::time_argument::TimeArgument;

/// Changes jobs, or reports which it would change.
pub(super) async fn run(
    verb: JobVerb,
    arguments: ChangeArguments,
    database: &DatabaseArguments,
) -> Result<Verdict, Failure> {
    run_for(verb, None, arguments, Reach::Given, database).await
}

/// Gives jobs another time, which may be relative to the database's time.
pub(super) async fn reschedule(
    to: TimeArgument,
    arguments: ChangeArguments,
    database: &DatabaseArguments,
) -> Result<Verdict, Failure> {
    run_for(JobVerb::Reschedule(to.at(OffsetDateTime::now_utc())), Some(to), arguments, Reach::Given, database).await
}

/// Cancels jobs and all jobs that run after them, or resumes their graphs, or reports which jobs it would change.
pub(super) async fn run_graph(
    verb: JobVerb,
    arguments: ChangeArguments,
    database: &DatabaseArguments,
) -> Result<Verdict, Failure> {
    run_for(verb, None, arguments, Reach::Graph, database).await
}

/// Which jobs are changed, beside the given ones.
#[derive(Clone, Copy)]
enum Reach {
    Given,
    Graph,
}

async fn run_for(
    verb: JobVerb,
    to: Option<TimeArgument>,
    arguments: ChangeArguments,
    reach: Reach,
    database: &DatabaseArguments,
) -> Result<Verdict, Failure> {
    check(verb, &arguments)?;
    let progress = Arc::new(Progress::default());
    let changed = Arc::clone(&progress);
    let left = move || match changed.changed() {
        0 => "no batch was finished; the one being changed may still be".to_owned(),
        count => format!("{} {} before; the same command changes the rest", verb.words().past, job_count(count)),
    };
    or_interrupted(left, async {
        ask(database, async |client, form| match reach {
            Reach::Given => change(verb, to, arguments, client, form, &progress).await,
            Reach::Graph => change_graph(verb, arguments, client, form, &progress).await,
        })
        .await
    })
    .await
}

fn check(verb: JobVerb, arguments: &ChangeArguments) -> Result<(), Failure> {
    let ChangeArguments { ids, filter, all, limit, .. } = arguments;
    if ids.is_empty() && filter.is_empty() && !all {
        return Err(Failure::refused(
            format!("no jobs given to {}", verb.words().name),
            "give ids, or a filter such as --state discarded --queue emails, or --all",
        ));
    }
    if !ids.is_empty() && (!filter.is_empty() || limit.is_some()) {
        return Err(Failure::refused("ids and a filter at once", "give either the ids or the filter"));
    }
    Ok(())
}

/// Changes the graphs of the given jobs. A given job that does not change itself is no failure: its graph goes on.
async fn change_graph(
    verb: JobVerb,
    arguments: ChangeArguments,
    client: &Client,
    form: Form,
    progress: &Progress,
) -> Result<Answer, Failure> {
    let mut described =
        format!("--graph {}", arguments.ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    let graph: Vec<JobId> = match verb {
        JobVerb::Retry => {
            let mut planned = BTreeMap::new();
            for id in &arguments.ids {
                planned.extend(Admin::new(client).retry_graph_plan(*id).await?);
            }
            let waiting = planned.values().filter(|state| **state == JobState::Pending).count();
            described += &format!(" ({} at once, {waiting} after their parents)", planned.len() - waiting);
            planned.into_keys().collect()
        }
        _ => Admin::new(client).descendants(arguments.ids.iter().copied()).await?,
    };
    let change = FilteredChange {
        client,
        verb,
        to: None,
        filter: JobFilter::new().ids(&graph).states(verb.states()),
        described,
        limit: None,
        form,
        graph: Some(graph),
    };
    let missing = by_id::missing(client, &arguments.ids).await?;
    if arguments.dry_run { change.preview(&missing).await } else { change.run(arguments.yes, progress, missing).await }
}

async fn change(
    verb: JobVerb,
    to: Option<TimeArgument>,
    arguments: ChangeArguments,
    client: &Client,
    form: Form,
    progress: &Progress,
) -> Result<Answer, Failure> {
    let ChangeArguments { ids, filter, all: _, limit, dry_run, yes } = arguments;
    if !ids.is_empty() && !dry_run {
        return by_id::change(client, timed(verb, to, client).await?, &ids, &form, progress).await;
    }
    if !ids.is_empty() {
        let filter = JobFilter::new().ids(&ids).states(verb.states());
        let unchanged = by_id::unchanged(client, verb, &ids).await?;
        let described = String::new();
        return FilteredChange { client, verb, to, filter, described, limit, form, graph: None }
            .preview(&unchanged)
            .await;
    }
    let states = match filter.states() {
        Some(states) => states.intersection(verb.states()),
        None => verb.default_states(),
    };
    if states.is_empty() {
        let given = filter.states().unwrap_or_default();
        let problem = format!("{} does not change jobs in state {given}", verb.words().name);
        return Err(Failure::refused(problem, format!("it changes jobs in state {}", verb.states())));
    }
    let limited = limit.map(|limit| format!(" --limit {limit}")).unwrap_or_default();
    let described = format!("{}{limited}", filter.describe(states));
    let filter = filter.filter_of_existing_jobs(client).await?.states(states).given(limit, JobFilter::limit);
    let change = FilteredChange { client, verb, to, filter, described, limit, form, graph: None };
    if dry_run { change.preview(&[]).await } else { change.run(yes, progress, Vec::new()).await }
}

/// The arguments of every change.
#[derive(Debug, Args)]
pub(in crate::job) struct ChangeArguments {
    /// The jobs to change
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<JobId>,

    #[command(flatten)]
    pub(super) filter: FilterArguments,

    /// Every job that the command can change
    #[arg(long, help_heading = "Which jobs", conflicts_with = "ids")]
    pub(super) all: bool,

    /// At most this many jobs, the oldest first
    #[arg(long, value_name = "N", help_heading = "Which jobs", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) limit: Option<u32>,

    /// Only print how many jobs match, and show some
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(super) yes: bool,
}
