//! A page of metrics: its lines, and where the values of a metric come from.

use std::fmt::Write;

use uniqueue::PlaceName;
use uniqueue_admin::{Histogram, HistoryCounts, QueueInfo};

use crate::snapshot::Snapshot;

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
