//! Changes of the jobs that match a filter.

use uniqueue::{Client, JobCount, JobFilter, JobId, JobRow};
use uniqueue_admin::JobVerb;

use super::report::{Preview, Progress, SAMPLE, Unchanged, answer, describe_count, job_count, unchanged_lines};
use crate::exit::{Failure, Verdict};
use crate::job::list;
use crate::output::{self, Answer, Bar, Form};
use crate::own_name::own_name;
use crate::time_argument::TimeArgument;

/// The number of jobs up to which a filter's jobs are counted before they are changed.
const COUNT_LIMIT: u32 = 1_000_000;

/// A change of the jobs that match a filter.
pub(super) struct FilteredChange<'a> {
    pub(super) client: &'a Client,
    pub(super) verb: JobVerb,
    /// The time of a reschedule.
    pub(super) to: Option<TimeArgument>,
    pub(super) filter: JobFilter,
    /// The filter as on the command line.
    pub(super) described: String,
    pub(super) limit: Option<u32>,
    pub(super) form: Form,
    /// The ids that the filter names, to be changed in one statement. `None`: batch by batch.
    pub(super) graph: Option<Vec<JobId>>,
}

impl FilteredChange<'_> {
    /// Counts the jobs that would be changed, shows the first of them, and lists the given ones that would not.
    pub(super) async fn preview(&self, unchanged: &[Unchanged]) -> Result<Answer, Failure> {
        let verdict = if unchanged.is_empty() { Verdict::Fine } else { Verdict::NotFine };
        let jobs = self.count().await?;
        let sample = self.sample().await?;
        let shown = match sample.is_empty() {
            true => String::new(),
            false => list::table(&sample, None, self.client.database_time().await?).text(),
        };
        let passive = self.verb.words().passive;
        let with = if self.graph.is_some() { format!(" with {}", self.described) } else { String::new() };
        let summary = format!("{} would {passive}{with}; nothing was changed\n", describe_count(jobs));
        let text = format!("{shown}{}", output::wrapped(&format!("{summary}{}", unchanged_lines(unchanged))));
        let preview = Preview { verb: self.verb.words().name, dry_run: true, jobs, sample: &sample, unchanged };
        Ok(self.form.object(&preview, |_| text)?.verdict(verdict))
    }

    /// Asks for confirmation, and changes the jobs. `unchanged`: given jobs that are not among them.
    pub(super) async fn run(
        &self,
        yes: bool,
        progress: &Progress,
        unchanged: Vec<Unchanged>,
    ) -> Result<Answer, Failure> {
        let words = self.verb.words();
        let jobs = self.count().await?;
        if jobs.counted() == 0 {
            // A job that is inserted from now on was not in the question.
            return answer(&progress.outcome(self.verb, unchanged), words, &self.form);
        }
        if !yes && !self.is_confirmed(jobs)? {
            return Ok(Answer::of("nothing was changed\n".to_owned()).verdict(Verdict::NotFine));
        }
        let verb = timed(self.verb, self.to, self.client).await?;
        let bar = Bar::new(words.present, jobs.is_exact().then(|| jobs.counted()));
        let change = match &self.graph {
            Some(ids) => verb.change(self.client, ids.as_slice()),
            None => verb.change(self.client, self.filter.clone()),
        };
        let change = progress.follow(change.actor(own_name()), Some(&bar));
        change.await.map_err(|error| match progress.changed() {
            0 => Failure::from(error),
            // The batches before the error are committed.
            count => Failure::refused(
                format!("{} {}, then: {error}", words.past, job_count(count)),
                "the same command changes the rest",
            ),
        })?;
        drop(bar);
        answer(&progress.outcome(self.verb, unchanged), words, &self.form)
    }

    fn is_confirmed(&self, jobs: JobCount) -> Result<bool, Failure> {
        let (count, schema) = (describe_count(jobs), self.client.schema());
        let count = format!("{count} in schema {schema} with {}", self.described);
        let (question, what) = (self.verb.words().imperative, self.verb.words().name);
        output::confirm(&format!("{question} {count}?"), &format!("{what} of {count}"))
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

    async fn sample(&self) -> Result<Vec<JobRow>, Failure> {
        let limit = self.limit.unwrap_or(SAMPLE).min(SAMPLE);
        Ok(self.client.jobs(self.filter.clone().oldest_first().limit(limit)).await?)
    }
}

/// The change with its time, where that counts from the time of the database at which the jobs are changed.
pub(super) async fn timed(verb: JobVerb, to: Option<TimeArgument>, client: &Client) -> Result<JobVerb, Failure> {
    Ok(match to {
        Some(to) => JobVerb::Reschedule(to.at(client.database_time().await?)),
        None => verb,
    })
}
