//! `/metrics`: the latest sample as OpenMetrics text. A scrape sends no query. Over several places each value has a label
//! with its place.

mod table;

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use uniqueue::{Histogram, HistoryCounts, PlaceName};
use uniqueue_admin::QueueInfo;

use self::table::METRICS;
use crate::app::App;
use crate::snapshot::{Seen, Snapshot};

/// The content type that Prometheus asks for.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The latest sample. Without one only the build and a failed sample.
pub(crate) async fn show(State(app): State<Arc<App>>) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], text(&app.latest().await)).into_response()
}

/// The values of a metric, as far as the sample has them.
enum Values {
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
    const fn kind(&self) -> &'static str {
        match self {
            Self::One(_) | Self::OfQueues(_) | Self::Failed => "gauge",
            Self::Totals(_) => "counter",
            Self::Times(_) => "histogram",
            Self::Labelled(kind, _) => kind,
            Self::Build => "info",
        }
    }
}

/// The page of a sample, or of one of each place.
pub(crate) fn text(samples: &[(Option<PlaceName>, Seen)]) -> String {
    let mut page = Page { text: String::new(), place: None };
    for (name, meaning, values) in &METRICS {
        page.describe(name, values.kind(), meaning);
        if let Values::Build = values {
            page.place = None;
            page.value("uniqueue_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
            continue;
        }
        for (place, seen) in samples {
            page.place = place.as_ref();
            match (values, &seen.snapshot) {
                (Values::Failed, _) => page.value(name, &[], flag(seen.problem().is_some())),
                (values, Some(snapshot)) => page.series(name, values, snapshot),
                (_, None) => {}
            }
        }
    }
    page.text.push_str("# EOF\n");
    page.text
}

struct Page<'a> {
    text: String,
    /// The label of the values that follow.
    place: Option<&'a PlaceName>,
}

impl Page<'_> {
    fn describe(&mut self, name: &str, kind: &str, meaning: &str) {
        let unit = if name.ends_with("_seconds") { format!("# UNIT {name} seconds\n") } else { String::new() };
        let _ = write!(self.text, "# TYPE {name} {kind}\n{unit}# HELP {name} {meaning}\n");
    }

    fn series(&mut self, name: &str, values: &Values, snapshot: &Snapshot) {
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

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
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

fn flag(is_set: bool) -> f64 {
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

    #[test]
    fn the_dashboard_and_the_alerts_name_metrics_that_there_are() {
        let names: Vec<_> = METRICS.iter().map(|(name, ..)| *name).collect();
        let files = [
            include_str!("../../../deploy/prometheus-rules.yml"),
            include_str!("../../../deploy/grafana-dashboard.json"),
            include_str!("../../../docs/operate/web.md"),
        ];
        for file in files {
            let mut named = 0;
            for word in file.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')) {
                if word.starts_with("uniqueue_") && word != "uniqueue_web" {
                    let series = word.trim_end_matches("_total").trim_end_matches("_info");
                    assert!(names.contains(&word) || names.contains(&series), "{word}");
                    named += 1;
                }
            }
            assert!(named > 10, "{named}");
        }
        for name in names {
            assert!(files[2].contains(&format!("`{name}")), "docs/operate/web.md lacks {name}");
        }
        serde_json::from_str::<serde_json::Value>(files[1]).unwrap();
    }

    #[test]
    fn without_a_sample_the_page_says_so() {
        let page = text(&[(None, Seen::default())]);
        assert!(page.contains("\nuniqueue_sample_failed 1\n"), "{page}");
        assert!(page.contains("\nuniqueue_build_info{version=\""), "{page}");
        assert!(page.ends_with("# EOF\n"), "{page}");
    }
}
