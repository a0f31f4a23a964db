//! Changes of jobs: `uniqueue job retry|cancel|discard|delete|reschedule|release|priority`.
//!
//! ```text
//! ids ─────▶ one statement, and a reason for each job that was not changed ──┐
//! graph ───▶ count, sample, confirm, then one statement ─────────────────────┤
//! filter ──▶ count, sample, confirm, then batch by batch ────────────────────┴─▶ report
//! ```

mod report;

use std::collections::{BTreeMap, HashMap};

use uniqueue_admin::JobVerb;

use self::report::{Preview, Progress, SAMPLE, Unchanged, answer, describe_count, job_count, unchanged_lines};
use super::filter::FilterArguments;
use super::list;
use crate::prelude::*;

/// The number of jobs up to which a filter's jobs are counted before they are changed.
const COUNT_LIMIT: u32 = 1_000_000;

/// The number of jobs that one look-up reads.
const AT_ONCE: usize = 1_000;

/// Changes jobs, or reports which it would change. `to` is the time of a reschedule, which may count from the time of the
/// database. `is_graph`: all jobs are changed that run after the given ones, or those of their graphs that a retry resumes.
pub(super) async fn run(
    verb: JobVerb,
    to: Option<TimeArgument>,
    is_graph: bool,
    arguments: ChangeArguments,
    database: &DatabaseArguments,
) -> Result<Verdict, Failure> {
    check(verb, &arguments)?;
    let progress = Progress::default();
    let left = || match progress.changed() {
        0 => "no batch was finished; the one being changed may still be".to_owned(),
        count => format!("{} {} before; the same command changes the rest", verb.words().past, job_count(count)),
    };
    let changed = ask(database, async |client, form| {
        let (is_dry, yes) = (arguments.dry_run, arguments.yes);
        let jobs = Jobs::select(client, verb, to, is_graph, arguments).await?;
        if is_dry { jobs.preview(&form).await } else { jobs.change(yes, &progress, &form).await }
    });
    or_interrupted(left, changed).await
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

/// How the jobs of a change are given.
#[derive(Clone, Copy, Eq, PartialEq)]
enum By {
    Ids,
    /// By ids, with their graphs.
    Graph,
    Filter,
}

/// The jobs of a change.
struct Jobs<'a> {
    client: &'a Client,
    verb: JobVerb,
    to: Option<TimeArgument>,
    by: By,
    filter: JobFilter,
    /// The filter as on the command line.
    described: String,
    limit: Option<u32>,
    /// The given ids.
    given: Vec<JobId>,
    /// The jobs to change in one statement. `None`: those of the filter, batch by batch.
    ids: Option<Vec<JobId>>,
}

impl<'a> Jobs<'a> {
    async fn select(
        client: &'a Client,
        verb: JobVerb,
        to: Option<TimeArgument>,
        is_graph: bool,
        arguments: ChangeArguments,
    ) -> Result<Self, Failure> {
        let ChangeArguments { ids: given, filter, limit, .. } = arguments;
        let by = match given.as_slice() {
            [] => By::Filter,
            _ if is_graph => By::Graph,
            _ => By::Ids,
        };
        let (filter, described, ids) = match by {
            By::Filter => {
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
                let filter = filter.filter_of_existing_jobs(client).await?.states(states);
                (filter.given(limit, JobFilter::limit), described, None)
            }
            By::Graph => {
                let (ids, described) = graph(client, verb, &given).await?;
                (JobFilter::new().ids(&ids).states(verb.states()), described, Some(ids))
            }
            By::Ids => (JobFilter::new().ids(&given).states(verb.states()), String::new(), Some(given.clone())),
        };
        Ok(Self { client, verb, to, by, filter, described, limit, given, ids })
    }

    /// Counts the jobs that would be changed, shows the first of them, and lists the given ones that would not.
    async fn preview(&self, form: &Form) -> Result<Answer, Failure> {
        let unchanged = &self.unchanged(&self.given, None).await?;
        let verdict = if unchanged.is_empty() { Verdict::Fine } else { Verdict::NotFine };
        let jobs = self.count().await?;
        let shown = self.filter.clone().oldest_first().limit(self.limit.unwrap_or(SAMPLE).min(SAMPLE));
        let sample = &self.client.jobs(shown).await?;
        let shown = match sample.is_empty() {
            true => String::new(),
            false => list::table(sample, None, self.client.database_time().await?).text(),
        };
        let words = self.verb.words();
        let with = if self.by == By::Graph { format!(" with {}", self.described) } else { String::new() };
        let summary = format!("{} would {}{with}; nothing was changed\n", describe_count(jobs), words.passive);
        let text = format!("{shown}{}", output::wrapped(&format!("{summary}{}", unchanged_lines(unchanged))));
        let preview = Preview { verb: words.name, dry_run: true, jobs, sample, unchanged };
        Ok(form.object(&preview, |_| text)?.verdict(verdict))
    }

    /// Changes the jobs. Before those that were not given one by one, it asks for confirmation.
    async fn change(&self, yes: bool, progress: &Progress, form: &Form) -> Result<Answer, Failure> {
        let words = self.verb.words();
        let mut unchanged = Vec::new();
        let mut total = Some(self.given.len() as u64);
        if self.by != By::Ids {
            unchanged = self.unchanged(&self.given, None).await?;
            let jobs = self.count().await?;
            if jobs.counted() == 0 {
                // A job that is inserted from now on was not in the question.
                return answer(&progress.outcome(self.verb, unchanged), words, form);
            }
            if !yes && !self.is_confirmed(jobs)? {
                return Ok(Answer::of("nothing was changed\n".to_owned()).verdict(Verdict::NotFine));
            }
            total = jobs.is_exact().then(|| jobs.counted());
        }
        let verb = match self.to {
            Some(to) => JobVerb::Reschedule(to.at(self.client.database_time().await?)),
            None => self.verb,
        };
        let bar = Bar::new(words.present, total);
        let change = match &self.ids {
            Some(ids) => verb.change(self.client, ids.as_slice()),
            None => verb.change(self.client, self.filter.clone()),
        };
        let changed = progress.follow(change.actor(own_name()), &bar).await;
        let changed = changed.map_err(|error| match progress.changed() {
            0 => Failure::from(error),
            // The batches before the error are committed.
            count => Failure::refused(
                format!("{} {}, then: {error}", words.past, job_count(count)),
                "the same command changes the rest",
            ),
        })?;
        drop(bar);
        if self.by == By::Ids {
            let is_left = |id: &&JobId| !changed.contains(id) && !progress.is_refused(**id);
            let left: Vec<_> = self.given.iter().filter(is_left).copied().collect();
            // A job may have entered a suitable state since the statement.
            unchanged = self.unchanged(&left, Some("it was in no suitable state")).await?;
        }
        answer(&progress.outcome(self.verb, unchanged), words, form)
    }

    fn is_confirmed(&self, jobs: JobCount) -> Result<bool, Failure> {
        let (count, schema) = (describe_count(jobs), self.client.schema());
        let count = format!("{count} in schema {schema} with {}", self.described);
        let words = self.verb.words();
        output::confirm(&format!("{} {count}?", words.imperative), &format!("{} of {count}", words.name))
    }

    /// Counts the jobs that match, up to the limit of the change.
    async fn count(&self) -> Result<JobCount, Failure> {
        let up_to = self.limit.unwrap_or(u32::MAX).min(COUNT_LIMIT);
        let count = self.client.count_jobs(self.filter.clone(), up_to).await?;
        Ok(match self.limit {
            // More jobs may match, but no more are changed.
            Some(limit) if limit <= COUNT_LIMIT => JobCount::Exactly(count.counted()),
            _ => count,
        })
    }

    /// The jobs among these that are not changed, and why. Where no reason is found, `otherwise` is it.
    async fn unchanged(&self, ids: &[JobId], otherwise: Option<&str>) -> Result<Vec<Unchanged>, Failure> {
        let mut found = HashMap::new();
        for ids in ids.chunks(AT_ONCE) {
            let jobs = self.client.jobs(JobFilter::new().ids(ids.iter().copied()).limit(AT_ONCE as u32)).await?;
            found.extend(jobs.into_iter().map(|job| (job.id, job.state)));
        }
        let (name, states) = (self.verb.words().name, self.verb.states());
        let reason = |id: &JobId| match found.get(id) {
            None => Some("there is no such job".to_owned()),
            // Whatever its state, its graph goes on.
            Some(_) if self.by == By::Graph => None,
            Some(state) if states.contains(*state) => otherwise.map(str::to_owned),
            Some(state) => Some(format!("it is {state}; {name} changes jobs in state {states}")),
        };
        Ok(ids.iter().filter_map(|id| Some(Unchanged { id: *id, reason: reason(id)? })).collect())
    }
}

/// The jobs of the graphs of the given ones, and the words of the command line for them.
async fn graph(client: &Client, verb: JobVerb, given: &[JobId]) -> Result<(Vec<JobId>, String), Failure> {
    let described = format!("--graph {}", given.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    if verb != JobVerb::Retry {
        return Ok((Admin::new(client).descendants(given.iter().copied()).await?, described));
    }
    let mut planned = BTreeMap::new();
    for id in given {
        planned.extend(Admin::new(client).retry_graph_plan(*id).await?);
    }
    let waiting = planned.values().filter(|state| **state == JobState::Pending).count();
    let at_once = planned.len() - waiting;
    Ok((planned.into_keys().collect(), format!("{described} ({at_once} at once, {waiting} after their parents)")))
}

/// The end of the help of every change.
const HELP: &str = "\
A change by ids starts at once. A change by a filter first prints the number of jobs and asks for confirmation; without a
terminal it needs --yes. It leaves out jobs that are inserted later. It changes jobs in batches of 1,000, oldest first,
each batch in a transaction of its own. Jobs that another transaction has locked come last, and then it waits for them.
With --json it prints {\"verb\", \"changed\": count, \"discarded\": [ids], \"unchanged\": [{\"id\", \"reason\"}]}, with --dry-run
{\"verb\", \"dry_run\": true, \"jobs\": {\"exactly\": n} or {\"at_least\": n}, \"sample\": [jobs], \"unchanged\"}.

Exit codes:
  0    every given job was changed; by a filter, every matching job
  1    a given job does not exist or is in no state for the command; a job was discarded, because another job holds its
       unique key and its policy says so; or the answer was no
  130  interrupted by Ctrl-C or SIGTERM before the end; it prints how many jobs it changed";

/// The arguments of every change.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(in crate::job) struct ChangeArguments {
    /// The jobs to change
    #[arg(value_name = "ID")]
    ids: Vec<JobId>,

    #[command(flatten)]
    filter: FilterArguments,

    /// Every job that the command can change
    #[arg(long, help_heading = "Which jobs", conflicts_with = "ids")]
    all: bool,

    /// At most this many jobs, the oldest first
    #[arg(long, value_name = "N", help_heading = "Which jobs", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,

    /// Only print how many jobs match, and show some
    #[arg(long)]
    dry_run: bool,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}
