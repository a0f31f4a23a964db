//! The metrics, where their values come from, and the lines of their page.

use std::fmt::Write;

use uniqueue::{JobCount, JobState, PlaceName, Rate};
use uniqueue_admin::{Histogram, HistoryCounts, QueueInfo, Severity};

use self::Values::{Build, Failed, Labelled, OfQueues, One, Times, Totals};
use crate::sampler::Snapshot;

/// The name, meaning and values of each metric.
macro_rules! metrics {
    ($($name:ident: $meaning:literal = $values:expr;)*) => { [$((stringify!($name), $meaning, $values)),*] };
}

/// The metrics in the order of the page. `docs/operate/web.md` lists them.
pub(super) const METRICS: [(&str, &str, Values); 32] = metrics! {
    uniqueue_jobs: "Jobs by queue and state, an estimate or a lower bound where uniqueue_jobs_capped is 1."
        = Labelled("gauge", |page, sample| jobs(page, sample, "uniqueue_jobs", |count| count.counted() as f64));
    uniqueue_jobs_capped: "Whether the count of this queue and state ended at a limit."
        = Labelled("gauge", |page, sample| jobs(page, sample, "uniqueue_jobs_capped", |count| flag(!count.is_exact())));
    uniqueue_oldest_available_age_seconds: "How long the oldest available job of a queue has been due."
        = OfQueues(|queue| Some(queue.oldest_available_age.unwrap_or_default().as_secs_f64()));
    uniqueue_queue_paused: "Whether the queue is paused."
        = OfQueues(|queue| Some(flag(queue.settings.paused_at.is_some())));
    uniqueue_queue_held: "Whether the queue is held for a time."
        = OfQueues(|queue| Some(flag(queue.settings.held_until.is_some())));
    uniqueue_queue_limit: "How many jobs of the queue may run at once. Absent without a limit."
        = OfQueues(|queue| queue.settings.limit.map(f64::from));
    uniqueue_queue_group_limit: "How many jobs of each group of the queue may run at once. Absent without a limit."
        = OfQueues(|queue| queue.settings.group_limit.map(f64::from));
    uniqueue_queue_max_waiting: "At how many available jobs of the queue inserts are refused. Absent without a limit."
        = OfQueues(|queue| queue.settings.max_waiting.map(f64::from));
    uniqueue_queue_rate_per_second: "How many jobs of the queue may start a second. Absent without a rate."
        = OfQueues(|queue| queue.settings.rate.map(per_second));
    uniqueue_queue_rate_burst: "How many jobs of the queue may start at once. Absent without a rate."
        = OfQueues(|queue| queue.settings.rate.map(|rate| f64::from(rate.burst)));
    uniqueue_queue_group_rate_per_second: "How many jobs of each group of the queue may start a second. Absent without a rate."
        = OfQueues(|queue| queue.settings.group_rate.map(per_second));
    uniqueue_queue_group_rate_burst: "How many jobs of each group of the queue may start at once. Absent without a rate."
        = OfQueues(|queue| queue.settings.group_rate.map(|rate| f64::from(rate.burst)));
    uniqueue_queue_runners: "Live runners of the queue." = OfQueues(|queue| Some(queue.runners as f64));
    uniqueue_runners: "Live runners." = One(|sample| Some(sample.stats.runners as f64));
    uniqueue_inserted_per_second: "Jobs inserted a second, over the last minute."
        = One(|sample| Some(sample.stats.rates.inserted));
    uniqueue_completed_per_second: "Jobs completed a second, by the last heartbeats of the runners."
        = One(|sample| Some(sample.stats.rates.completed));
    uniqueue_failed_per_second: "Attempts failed a second, by the last heartbeats of the runners."
        = One(|sample| Some(sample.stats.rates.failed));
    uniqueue_waiting_inserts: "Inserts that wait for another transaction. Absent where the role may not see them."
        = One(|sample| sample.waiting_inserts.map(|waiting| waiting as f64));
    uniqueue_queue_inserted: "Jobs inserted into a queue, as in the history." = Totals(|counts| counts.inserted);
    uniqueue_queue_duplicates: "Inserts into a queue that were duplicates, as in the history."
        = Totals(|counts| counts.duplicates);
    uniqueue_queue_completed: "Completed runs of a queue." = Totals(|counts| counts.completed);
    uniqueue_queue_failed: "Failed runs of a queue." = Totals(|counts| counts.failed);
    uniqueue_queue_discarded: "Discarded jobs of a queue." = Totals(|counts| counts.discarded);
    uniqueue_queue_wait_seconds: "How long ended runs of a queue had waited since they were due."
        = Times(|counts| &counts.wait);
    uniqueue_queue_run_seconds: "How long ended runs of a queue took." = Times(|counts| &counts.run);
    uniqueue_suppressed_duplicates: "Suppressed duplicates of audited kinds." = Labelled("counter", suppressed);
    uniqueue_findings: "Problems that doctor found, by severity. Absent until it has looked."
        = Labelled("gauge", by_severity);
    uniqueue_finding: "Problems that doctor found, by code." = Labelled("gauge", by_code);
    uniqueue_diagnosis_age_seconds: "How long ago doctor looked." = One(diagnosis_age);
    uniqueue_sample_age_seconds: "How long ago these values were read."
        = One(|sample| Some(sample.taken_at.elapsed().as_secs_f64()));
    uniqueue_sample_failed: "Whether the samples after these values failed." = Failed;
    uniqueue_build: "The version of uniqueue-web." = Build;
};

fn per_second(rate: Rate) -> f64 {
    f64::from(rate.count) / rate.period.as_secs_f64()
}

/// A value of each queue and state.
fn jobs(page: &mut Page<'_>, sample: &Snapshot, name: &str, value: fn(JobCount) -> f64) {
    for queue in &sample.queues {
        for state in JobState::ALL {
            let labels = [("queue", queue.settings.name.as_str()), ("state", state.as_str())];
            page.value(name, &labels, value(queue.count(state)));
        }
    }
}

fn suppressed(page: &mut Page<'_>, sample: &Snapshot) {
    for kind in &sample.audited {
        page.value("uniqueue_suppressed_duplicates_total", &[("kind", kind.kind.as_str())], kind.suppressed as f64);
    }
}

fn by_severity(page: &mut Page<'_>, sample: &Snapshot) {
    let Some(diagnosis) = &sample.doctor.diagnosis else { return };
    for severity in [Severity::Critical, Severity::Warning, Severity::Notice] {
        let found = diagnosis.findings.iter().filter(|finding| finding.severity == severity).count();
        page.value("uniqueue_findings", &[("severity", severity.as_str())], found as f64);
    }
}

fn by_code(page: &mut Page<'_>, sample: &Snapshot) {
    let Some(diagnosis) = &sample.doctor.diagnosis else { return };
    let mut codes: Vec<_> = diagnosis.findings.iter().map(|finding| finding.code.as_str()).collect();
    codes.sort_unstable();
    for same in codes.chunk_by(|one, other| one == other) {
        page.value("uniqueue_finding", &[("code", same[0])], same.len() as f64);
    }
}

fn diagnosis_age(sample: &Snapshot) -> Option<f64> {
    let diagnosis = sample.doctor.diagnosis.as_ref()?;
    let age = sample.stats.asked_at - diagnosis.at + sample.taken_at.elapsed();
    Some(age.as_seconds_f64().max(0.0))
}

/// The values of a metric, as far as the sample has them.
pub(super) enum Values {
    One(fn(&Snapshot) -> Option<f64>),
    /// A value of each queue that has one.
    OfQueues(fn(&QueueInfo) -> Option<f64>),
    /// A count of each queue in the history.
    Totals(fn(&HistoryCounts) -> u64),
    /// The times of each queue in the history.
    Times(fn(&HistoryCounts) -> &Histogram),
    /// Values with other labels, or of another type.
    Labelled(&'static str, fn(&mut Page<'_>, &Snapshot)),
    /// Whether the sample failed.
    Failed,
    /// The version.
    Build,
}

impl Values {
    /// The type of the metric.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::One(_) | Self::OfQueues(_) | Self::Failed => "gauge",
            Self::Totals(_) => "counter",
            Self::Times(_) => "histogram",
            Self::Labelled(kind, _) => kind,
            Self::Build => "info",
        }
    }
}

pub(super) struct Page<'a> {
    pub(super) text: String,
    /// The label of the values that follow.
    pub(super) place: Option<&'a PlaceName>,
}

impl Page<'_> {
    pub(super) fn describe(&mut self, name: &str, kind: &str, meaning: &str) {
        let unit = if name.ends_with("_seconds") { format!("# UNIT {name} seconds\n") } else { String::new() };
        let _ = write!(self.text, "# TYPE {name} {kind}\n{unit}# HELP {name} {meaning}\n");
    }

    pub(super) fn series(&mut self, name: &str, values: &Values, snapshot: &Snapshot) {
        let totals = snapshot.totals.iter().map(|of| (of.queue.as_str(), &of.counts));
        match values {
            Values::One(of) => of(snapshot).into_iter().for_each(|value| self.value(name, &[], value)),
            Values::OfQueues(of) => {
                for queue in &snapshot.queues {
                    if let Some(value) = of(queue) {
                        self.value(name, &[("queue", queue.settings.name.as_str())], value);
                    }
                }
            }
            Values::Totals(of) => totals.for_each(|(queue, counts)| {
                self.value(&format!("{name}_total"), &[("queue", queue)], of(counts) as f64)
            }),
            Values::Times(of) => totals.for_each(|(queue, counts)| self.histogram(name, queue, of(counts))),
            Values::Labelled(_, add) => add(self, snapshot),
            Values::Failed | Values::Build => {}
        }
    }

    /// A bucket counts times below its bound. Prometheus reads the bound as included, which differs for equal times only.
    fn histogram(&mut self, name: &str, queue: &str, histogram: &Histogram) {
        let mut counted = 0;
        for (bound, count) in histogram.buckets() {
            counted += count;
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.as_secs_f64().to_string());
            self.value(&format!("{name}_bucket"), &[("queue", queue), ("le", &bound)], counted as f64);
        }
        self.value(&format!("{name}_sum"), &[("queue", queue)], histogram.sum().as_secs_f64());
        self.value(&format!("{name}_count"), &[("queue", queue)], counted as f64);
    }

    pub(super) fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        let labels = self.place.map(|place| ("place", place.as_str())).into_iter().chain(labels.iter().copied());
        let mut start = '{';
        for (label, text) in labels {
            self.text.push(std::mem::replace(&mut start, ','));
            let _ = write!(self.text, "{label}=\"{}\"", escaped(text));
        }
        if start == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

pub(super) fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

/// A label's text: names of queues and kinds are hostile.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_end_its_line_or_its_quotes() {
        assert_eq!(escaped("a\"\\\n"), "a\\\"\\\\\\n");
    }
}
