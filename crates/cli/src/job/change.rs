//! Changing jobs: those that are named, or those that a filter means.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use serde::Serialize;
use uniqueue::{Client, JobCount, JobFilter, JobId, JobRow};

use super::filter::FilterArguments;
use super::list;
use super::verb::{Verb, Words};
use crate::Verdict;
use crate::args::QueueArguments;
use crate::database::Database;
use crate::failure::Failure;
use crate::interrupt::or_interrupted;
use crate::output::{self, Answer, Bar};

/// Beyond this a filter's jobs are not counted before they are changed.
const COUNT_UP_TO: u32 = 1_000_000;

/// How many of a filter's jobs are shown before they are changed.
const SAMPLE: u32 = 5;

/// Which jobs are changed.
#[derive(Debug, Args)]
pub(super) struct ChangeArguments {
    /// These jobs
    #[arg(value_name = "ID")]
    ids: Vec<JobId>,

    #[command(flatten)]
    filter: FilterArguments,

    /// Every job that can be
    #[arg(long, help_heading = "Which jobs", conflicts_with = "ids")]
    all: bool,

    /// At most so many, the oldest first
    #[arg(long, value_name = "N", help_heading = "Which jobs", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,

    /// Only say how many jobs are meant, and show some
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    queue: QueueArguments,
}

/// What became of the jobs.
#[derive(Debug, Serialize)]
struct Outcome {
    verb: &'static str,
    changed: u64,
    unchanged: Vec<Unchanged>,
}

#[derive(Debug, Serialize)]
struct Unchanged {
    id: JobId,
    reason: String,
}

/// What would become of them.
#[derive(Debug, Serialize)]
struct DryRun<'a> {
    verb: &'static str,
    dry_run: bool,
    jobs: JobCount,
    sample: &'a [JobRow],
}

/// Changes jobs, or says which it would.
pub(super) async fn run(verb: Verb, arguments: ChangeArguments) -> Result<Verdict, Failure> {
    let ChangeArguments { ids, filter, all, limit, dry_run, yes, queue } = arguments;
    if ids.is_empty() && filter.says_nothing() && !all {
        return Err(Failure::refused(
            format!("{} of which jobs?", verb.name()),
            "give ids, or a filter such as --state discarded --queue emails, or --all",
        ));
    }
    if !ids.is_empty() && (!filter.says_nothing() || limit.is_some()) {
        return Err(Failure::refused("ids and a filter at once", "give either the ids or the filter"));
    }
    let changed = Arc::new(AtomicU64::new(0));
    let words = verb.words();
    let seen = Arc::clone(&changed);
    let left = move || match seen.load(Ordering::Acquire) {
        0 => "nothing was changed before, but what was under way may still be".to_owned(),
        count => format!("{} {} before; the same command does the rest", words.done, jobs_of(count)),
    };
    or_interrupted(left, async {
        let database = Database::open_migrated(&queue).await?;
        let client = &database.client;
        let verdict = if ids.is_empty() {
            let states = match filter.states() {
                Some(states) => states.intersection(verb.can_change()),
                None => verb.usual(),
            };
            if states.is_empty() {
                let can = verb.can_change();
                let given = filter.state.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(", ");
                let hint = format!("it can be done to jobs that are {can}");
                return Err(Failure::refused(format!("{} does nothing to jobs in state {given}", verb.name()), hint));
            }
            let mut filter = filter.filter(client).await?.states(states);
            if let Some(limit) = limit {
                filter = filter.limit(limit);
            }
            let bulk = Bulk { client, verb, filter, limit, json: queue.json };
            if dry_run { bulk.tell().await? } else { bulk.change(yes, &changed).await? }
        } else if dry_run {
            let filter = JobFilter::new().ids(&ids).states(verb.can_change());
            Bulk { client, verb, filter, limit, json: queue.json }.tell().await?
        } else {
            change_named(client, verb, &ids, queue.json, &changed).await?
        };
        database.close().await?;
        Ok(verdict)
    })
    .await
}

/// Changes jobs by id, in one statement, and says why some were not.
async fn change_named(
    client: &Client,
    verb: Verb,
    ids: &[JobId],
    json: bool,
    done: &AtomicU64,
) -> Result<Verdict, Failure> {
    let changed = verb.change(client, ids).await?.await?;
    done.store(changed.len() as u64, Ordering::Release);
    let mut unchanged = Vec::new();
    for id in ids.iter().filter(|id| !changed.contains(id)) {
        let reason = match client.job(id).await? {
            None => "there is no such job".to_owned(),
            Some(job) => format!("it is {}; {} is for jobs that are {}", job.state, verb.name(), verb.can_change()),
        };
        unchanged.push(Unchanged { id: *id, reason });
    }
    let is_whole = unchanged.is_empty();
    tell(&Outcome { verb: verb.name(), changed: changed.len() as u64, unchanged }, verb.words(), json)?;
    Ok(if is_whole { Verdict::Fine } else { Verdict::NotFine })
}

/// A change to what a filter means.
struct Bulk<'a> {
    client: &'a Client,
    verb: Verb,
    filter: JobFilter,
    limit: Option<u32>,
    json: bool,
}

impl Bulk<'_> {
    /// Counts the jobs that are meant, no further than they would be changed.
    async fn count(&self) -> Result<JobCount, Failure> {
        let up_to = self.limit.unwrap_or(u32::MAX).min(COUNT_UP_TO);
        let count = self.client.count_jobs(self.filter.clone(), up_to).await?;
        Ok(match self.limit {
            // As many as the limit, if there are more.
            Some(limit) if limit <= COUNT_UP_TO => JobCount::Exactly(count.counted()),
            _ => count,
        })
    }

    /// Says how many jobs are meant, and shows the first of them.
    async fn tell(&self) -> Result<Verdict, Failure> {
        let jobs = self.count().await?;
        let sample = self.sample().await?;
        if self.json {
            output::print_json(&DryRun { verb: self.verb.name(), dry_run: true, jobs, sample: &sample })?;
            return Ok(Verdict::Fine);
        }
        let mut text = String::new();
        if !sample.is_empty() {
            text = list::table(&sample, self.client.database_time().await?).text();
        }
        text.push_str(&format!("{} would {}; nothing was changed\n", count_of(jobs), self.verb.words().would));
        output::print(&text)?;
        Ok(Verdict::Fine)
    }

    async fn sample(&self) -> Result<Vec<JobRow>, Failure> {
        let sample =
            self.client.jobs(self.filter.clone()).oldest_first().limit(self.limit.unwrap_or(SAMPLE).min(SAMPLE));
        Ok(sample.await?)
    }

    /// Asks, and changes them batch by batch.
    async fn change(&self, yes: bool, done: &AtomicU64) -> Result<Verdict, Failure> {
        let words = self.verb.words();
        let jobs = self.count().await?;
        if jobs.counted() > 0 && !yes {
            match output::ask(&format!("{} {}?", words.ask, count_of(jobs)))? {
                Answer::Yes => {}
                Answer::No => {
                    output::print("nothing was changed\n")?;
                    return Ok(Verdict::NotFine);
                }
                Answer::Nobody => {
                    return Err(Failure::refused(
                        format!("this would be done to {}, and there is nobody to ask", count_of(jobs)),
                        "look with --dry-run, then give --yes",
                    ));
                }
            }
        }
        let bar = Bar::new(words.doing, jobs.is_exact().then(|| jobs.counted()));
        let change = self.verb.change(self.client, self.filter.clone()).await?.on_batch(|batch| {
            done.fetch_add(batch.len() as u64, Ordering::AcqRel);
            bar.advance(batch.len() as u64);
        });
        let changed = change.await.map_err(|error| match done.load(Ordering::Acquire) {
            0 => Failure::from(error),
            // The batches before the error are committed.
            count => Failure::refused(
                format!("{} {}, then: {error}", words.done, jobs_of(count)),
                "the same command does the rest",
            ),
        })?;
        drop(bar);
        let outcome = Outcome { verb: self.verb.name(), changed: changed.len() as u64, unchanged: Vec::new() };
        tell(&outcome, words, self.json)?;
        Ok(Verdict::Fine)
    }
}

fn tell(outcome: &Outcome, words: Words, json: bool) -> Result<(), Failure> {
    if json {
        return output::print_json(outcome);
    }
    let mut text = format!("{} {}\n", words.done, jobs_of(outcome.changed));
    for Unchanged { id, reason } in &outcome.unchanged {
        text.push_str(&format!("not {id}: {reason}\n"));
    }
    output::print(&text)
}

fn jobs_of(count: u64) -> String {
    count_of(JobCount::Exactly(count))
}

fn count_of(count: JobCount) -> String {
    match count {
        JobCount::Exactly(1) => "1 job".to_owned(),
        JobCount::Exactly(count) => format!("{} jobs", output::count(count)),
        JobCount::AtLeast(count) => format!("more than {} jobs", output::count(count)),
    }
}
