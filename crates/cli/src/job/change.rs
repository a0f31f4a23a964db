//! Changing jobs: those that are named, or those that a filter means.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;
use serde::Serialize;
use uniqueue::{Change, Client, JobCount, JobFilter, JobId, JobRow};

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
    /// Those that did not come back: another job holds their key, and their policy says to discard them.
    discarded: Vec<JobId>,
    unchanged: Vec<Unchanged>,
}

/// How far a change is: batches tell it.
#[derive(Debug, Default)]
struct Done {
    changed: AtomicU64,
    discarded: Mutex<Vec<JobId>>,
}

impl Done {
    /// The change, which tells of its batches.
    fn follow<'c>(&'c self, change: Change<'c>, bar: Option<&'c Bar>) -> Change<'c> {
        let change = change.on_discarded(|ids| self.discarded().extend_from_slice(ids));
        let mut all = 0;
        // Told of a batch's discarded jobs before.
        change.on_batch(move |batch| {
            all += batch.len() as u64;
            self.changed.store(all - self.discarded().len() as u64, Ordering::Release);
            if let Some(bar) = bar {
                bar.advance(batch.len() as u64);
            }
        })
    }

    fn changed(&self) -> u64 {
        self.changed.load(Ordering::Acquire)
    }

    fn discarded(&self) -> MutexGuard<'_, Vec<JobId>> {
        self.discarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outcome(&self, verb: Verb, unchanged: Vec<Unchanged>) -> Outcome {
        Outcome { verb: verb.name(), changed: self.changed(), discarded: self.discarded().clone(), unchanged }
    }
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
    unchanged: &'a [Unchanged],
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
    let done = Arc::new(Done::default());
    let words = verb.words();
    let seen = Arc::clone(&done);
    let left = move || match seen.changed() {
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
            let mut filter = filter.filter_of_those_there(client).await?.states(states);
            if let Some(limit) = limit {
                filter = filter.limit(limit);
            }
            let bulk = Bulk { client, verb, filter, limit, json: queue.json };
            if dry_run { bulk.tell(&[]).await? } else { bulk.change(yes, &done).await? }
        } else if dry_run {
            let filter = JobFilter::new().ids(&ids).states(verb.can_change());
            let mut unchanged = Vec::new();
            for id in &ids {
                unchanged.extend(why_not(client, verb, *id).await?);
            }
            Bulk { client, verb, filter, limit, json: queue.json }.tell(&unchanged).await?
        } else {
            change_named(client, verb, &ids, queue.json, &done).await?
        };
        database.close().await?;
        Ok(verdict)
    })
    .await
}

/// Changes jobs by id, in one statement, and says why some were not.
async fn change_named(client: &Client, verb: Verb, ids: &[JobId], json: bool, done: &Done) -> Result<Verdict, Failure> {
    let changed = done.follow(verb.change(client, ids).await?, None).await?;
    let mut unchanged = Vec::new();
    for id in ids.iter().filter(|id| !changed.contains(id)) {
        // It may have come into a state for it since.
        let is_late = || Unchanged { id: *id, reason: "it was in no state for it".to_owned() };
        unchanged.push(why_not(client, verb, *id).await?.unwrap_or_else(is_late));
    }
    tell(&done.outcome(verb, unchanged), verb.words(), json)
}

/// Why a job cannot be changed so. `None`: it can.
async fn why_not(client: &Client, verb: Verb, id: JobId) -> Result<Option<Unchanged>, Failure> {
    let reason = match client.job(id).await? {
        None => "there is no such job".to_owned(),
        Some(job) if verb.can_change().contains(job.state) => return Ok(None),
        Some(job) => format!("it is {}; {} is for jobs that are {}", job.state, verb.name(), verb.can_change()),
    };
    Ok(Some(Unchanged { id, reason }))
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

    /// Says how many jobs are meant, shows the first of them, and says which of those that were named are not.
    async fn tell(&self, unchanged: &[Unchanged]) -> Result<Verdict, Failure> {
        let verdict = if unchanged.is_empty() { Verdict::Fine } else { Verdict::NotFine };
        let jobs = self.count().await?;
        let sample = self.sample().await?;
        if self.json {
            output::print_json(&DryRun { verb: self.verb.name(), dry_run: true, jobs, sample: &sample, unchanged })?;
            return Ok(verdict);
        }
        let mut text = String::new();
        if !sample.is_empty() {
            text = list::table(&sample, self.client.database_time().await?).text();
        }
        text.push_str(&format!("{} would {}; nothing was changed\n", count_of(jobs), self.verb.words().would));
        text.push_str(&lines_of(unchanged));
        output::print(&text)?;
        Ok(verdict)
    }

    async fn sample(&self) -> Result<Vec<JobRow>, Failure> {
        let sample =
            self.client.jobs(self.filter.clone()).oldest_first().limit(self.limit.unwrap_or(SAMPLE).min(SAMPLE));
        Ok(sample.await?)
    }

    /// Asks, and changes them batch by batch.
    async fn change(&self, yes: bool, done: &Done) -> Result<Verdict, Failure> {
        let words = self.verb.words();
        let jobs = self.count().await?;
        if jobs.counted() == 0 {
            // Those that come from now on were in no question.
            return tell(&done.outcome(self.verb, Vec::new()), words, self.json);
        }
        if !yes {
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
        let change = done.follow(self.verb.change(self.client, self.filter.clone()).await?, Some(&bar));
        change.await.map_err(|error| match done.changed() {
            0 => Failure::from(error),
            // The batches before the error are committed.
            count => Failure::refused(
                format!("{} {}, then: {error}", words.done, jobs_of(count)),
                "the same command does the rest",
            ),
        })?;
        drop(bar);
        tell(&done.outcome(self.verb, Vec::new()), words, self.json)
    }
}

/// Says what became of the jobs. Fine is that it is what was asked for.
fn tell(outcome: &Outcome, words: Words, json: bool) -> Result<Verdict, Failure> {
    let Outcome { verb: _, changed, discarded, unchanged } = outcome;
    let verdict = if discarded.is_empty() && unchanged.is_empty() { Verdict::Fine } else { Verdict::NotFine };
    if json {
        output::print_json(outcome)?;
        return Ok(verdict);
    }
    let mut text = format!("{} {}\n", words.done, jobs_of(*changed));
    if !discarded.is_empty() {
        let named: Vec<_> = discarded.iter().take(SAMPLE as usize).map(JobId::to_string).collect();
        let more = if discarded.len() > named.len() { ", …" } else { "" };
        let (jobs, named) = (jobs_of(discarded.len() as u64), named.join(", "));
        text.push_str(&format!("discarded {jobs}, since another job holds the unique key: {named}{more}\n"));
    }
    text.push_str(&lines_of(unchanged));
    output::print(&text)?;
    Ok(verdict)
}

fn lines_of(unchanged: &[Unchanged]) -> String {
    unchanged.iter().map(|Unchanged { id, reason }| format!("not {id}: {reason}\n")).collect()
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
