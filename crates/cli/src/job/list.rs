//! `uniqueue job list`.

use std::collections::HashMap;

use uniqueue_admin::Obstacle;

use super::filter::FilterArguments;
use crate::prelude::*;

/// List jobs, a page at a time.
///
/// The newest job comes first. A page starts where the last one ended (--after), so every page is as fast as the first. A
/// full page ends with the command for the next page. Indexes find available, running, scheduled, retryable and discarded
/// jobs and the holder of a key. Other conditions read job by job, so a rare job among many millions may take seconds.
///
/// ***
///
/// A time is RFC 3339 (2026-11-21T22:30:00Z), a date, or how long ago by the database's clock (2h, 1h30m, 7d).
/// With --json each job is one line. For the next page give --after with the last line's id.
///
/// Examples:
///   uniqueue job list                                        the newest hundred
///   uniqueue job list --state running --attempted-before 1h  running for more than an hour
///   uniqueue job list --state retryable,discarded --queue emails --newer-than 2h
///   uniqueue job list --kind email.send --args '{"user_id": 42}'
///   uniqueue job list --key reindex --json | jq -r .id
///   uniqueue job list --state available --oldest-first --why
///
/// Exit codes:
///   0    listed, even if no job matched
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct ListArguments {
    /// List only these jobs
    #[arg(value_name = "ID")]
    ids: Vec<JobId>,

    #[command(flatten)]
    filter: FilterArguments,

    /// The largest number of jobs
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,

    /// Start after this job, the last of the previous page
    #[arg(long, value_name = "ID")]
    after: Option<JobId>,

    /// List the oldest job first
    #[arg(long)]
    oldest_first: bool,

    /// Say of each job why it has not started
    #[arg(long)]
    why: bool,
}

/// A job with what keeps it from starting, as `--json` prints it.
#[derive(Debug, Serialize)]
struct JobAndWhy<'a> {
    #[serde(flatten)]
    job: &'a JobRow,
    why: Option<&'a Obstacle>,
}

/// A page.
pub(super) async fn page(client: Client, form: Form, arguments: ListArguments) -> Result<Answer, Failure> {
    let ListArguments { ids, filter, limit, after, oldest_first, why } = arguments;
    let mut filter = filter.filter(&client).await?;
    if !ids.is_empty() {
        filter = filter.ids(ids);
    }
    let filter = filter.limit(limit).after(after).given_flag(oldest_first, JobFilter::oldest_first);
    let jobs = client.jobs(filter).await?;
    let why = if why { Some(Admin::new(&client).first_obstacles(jobs.iter().map(|job| job.id)).await?) } else { None };
    let answer = match &why.as_ref() {
        Some(why) if form.json => form.lines(jobs.iter().map(|job| JobAndWhy { job, why: why.get(&job.id) }))?,
        why => {
            let now = client.database_time().await?;
            form.list(&jobs, |jobs| table(jobs, *why, now))?
        }
    };
    let ids = jobs.iter().map(|job| job.id.to_string()).collect();
    Ok(answer.page(Page { limit, is_oldest_first: oldest_first, ids }))
}

/// Lays jobs out as a table. The last column has their errors or their args, or why they wait where that is known. A narrow
/// terminal keeps errors and reasons, and leaves out other columns.
pub(crate) fn table(jobs: &[JobRow], why: Option<&HashMap<JobId, Obstacle>>, now: OffsetDateTime) -> Table {
    let has_errors = jobs.iter().any(|job| !job.errors.is_empty());
    let has_groups = jobs.iter().any(|job| job.group_key.is_some());
    let says_why = why.is_some() || has_errors;
    let optional = |column: Column| if says_why { column.optional() } else { column };
    let last = match (why, has_errors) {
        (Some(_), _) => Column::why("why"),
        (None, true) => Column::why("last error"),
        (None, false) => Column::long("args").optional(),
    };
    List::of(jobs)
        .column(Column::text("id"), |job| job.id.to_string())
        .column(optional(Column::text("state")), |job| Cell::new(job.state.as_str()).style(state_style(job.state)))
        .column(Column::long("kind"), |job| &job.kind)
        .column(Column::long("queue").optional(), |job| &job.queue)
        .column_if(has_groups, Column::long("group").optional(), |job| job.group_key.as_deref().unwrap_or_default())
        .column(Column::number("attempt").optional(), |job| format!("{}/{}", job.attempt, job.max_attempts))
        .column(optional(Column::text("when")), |job| time_in_state(job, now))
        .column(last, |job| match why {
            Some(why) => why.get(&job.id).map_or("", |first| &first.reason),
            None if has_errors => job.errors.last().map_or("", |error| &error.error),
            None => job.args.get(),
        })
        .table()
}

/// A phrase for a list: `waits 5m`, `runs 2h 5m`, `in 20s`, `3d ago`.
pub(super) fn time_in_state(job: &JobRow, now: OffsetDateTime) -> String {
    let since = |verb: &str, at: OffsetDateTime| {
        format!("{verb} {}", format_duration((now - at).try_into().unwrap_or_default()))
    };
    match job.state {
        JobState::Available => since("waits", job.scheduled_at),
        JobState::Pending => since("held", job.created_at),
        JobState::Running => since("runs", job.attempted_at.unwrap_or(job.scheduled_at)),
        JobState::Retryable | JobState::Scheduled => match job.scheduled_at > now {
            true => format_relative(job.scheduled_at, now),
            false => since("due", job.scheduled_at),
        },
        JobState::Cancelled | JobState::Completed | JobState::Discarded => {
            job.finalized_at.map(|at| format_relative(at, now)).unwrap_or_default()
        }
    }
}

/// The style of a state.
pub(super) fn state_style(state: JobState) -> Style {
    match state {
        JobState::Discarded => Style::Bad,
        JobState::Retryable => Style::Warn,
        JobState::Running => Style::Good,
        JobState::Cancelled | JobState::Completed => Style::Faint,
        JobState::Available | JobState::Pending | JobState::Scheduled => Style::Plain,
    }
}
