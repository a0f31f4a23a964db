//! `/metrics`: the latest sample as OpenMetrics text. A scrape sends no query. Over several places each value has a label
//! with its place.

mod table;

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use uniqueue::{Histogram, HistoryCounts, JobState, PlaceName, QueueSettings, Rate};
use uniqueue_admin::{QueueHistory, QueueInfo, Severity};

pub(crate) use self::table::METRICS;
use crate::app::App;
use crate::snapshot::{Seen, Snapshot};

/// The content type that Prometheus asks for.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The latest sample. Without one only the build and a failed sample.
pub(crate) async fn show(State(app): State<Arc<App>>) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], text(&app.latest().await)).into_response()
}

/// The page of a sample, or of one of each place.
pub(crate) fn text(samples: &[(Option<PlaceName>, Seen)]) -> String {
    let mut page = Page { text: String::new(), place: None };
    for (name, kind, meaning) in METRICS {
        page.describe(name, kind, meaning);
        if name == "uniqueue_build" {
            page.place = None;
            page.value("uniqueue_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
            continue;
        }
        for (place, seen) in samples {
            page.place = place.as_ref();
            match (name, &seen.snapshot) {
                ("uniqueue_sample_failed", _) => page.value(name, &[], flag(seen.problem().is_some())),
                (name, Some(snapshot)) => page.series(name, snapshot),
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

    fn series(&mut self, name: &str, snapshot: &Snapshot) {
        let Snapshot { stats, queues, doctor, waiting_inserts, audited, totals, .. } = snapshot;
        let rates = &stats.rates;
        if let Some(count) = total(name) {
            for of in totals.iter() {
                self.value(&format!("{name}_total"), &[("queue", of.queue.as_str())], count(&of.counts) as f64);
            }
            return;
        }
        match name {
            "uniqueue_jobs" | "uniqueue_jobs_capped" => {
                for queue in queues {
                    for state in JobState::ALL {
                        let count = queue.count(state);
                        let value = match name {
                            "uniqueue_jobs" => count.counted() as f64,
                            _ => flag(!count.is_exact()),
                        };
                        self.value(name, &[("queue", queue.settings.name.as_str()), ("state", state.as_str())], value);
                    }
                }
            }
            "uniqueue_oldest_available_age_seconds" => {
                self.of_queues(name, queues, |queue| {
                    Some(queue.oldest_available_age.unwrap_or_default().as_secs_f64())
                });
            }
            "uniqueue_queue_runners" => self.of_queues(name, queues, |queue| Some(queue.runners as f64)),
            "uniqueue_queue_wait_seconds" => self.histograms(name, totals, |counts| &counts.wait),
            "uniqueue_queue_run_seconds" => self.histograms(name, totals, |counts| &counts.run),
            name if name.starts_with("uniqueue_queue_") => {
                self.of_queues(name, queues, |queue| setting(name, &queue.settings));
            }
            "uniqueue_runners" => self.value(name, &[], stats.runners as f64),
            "uniqueue_inserted_per_second" => self.value(name, &[], rates.inserted),
            "uniqueue_completed_per_second" => self.value(name, &[], rates.completed),
            "uniqueue_failed_per_second" => self.value(name, &[], rates.failed),
            "uniqueue_waiting_inserts" => {
                if let Some(waiting) = waiting_inserts {
                    self.value(name, &[], *waiting as f64);
                }
            }
            "uniqueue_suppressed_duplicates" => {
                for kind in audited {
                    let labels = [("kind", kind.kind.as_str())];
                    self.value("uniqueue_suppressed_duplicates_total", &labels, kind.suppressed as f64);
                }
            }
            "uniqueue_findings" => {
                let Some(diagnosis) = &doctor.diagnosis else { return };
                for severity in [Severity::Critical, Severity::Warning, Severity::Notice] {
                    let found = diagnosis.findings.iter().filter(|finding| finding.severity == severity).count();
                    self.value(name, &[("severity", severity.as_str())], found as f64);
                }
            }
            "uniqueue_finding" => {
                let Some(diagnosis) = &doctor.diagnosis else { return };
                let mut codes: Vec<_> = diagnosis.findings.iter().map(|finding| finding.code.as_str()).collect();
                codes.sort_unstable();
                for same in codes.chunk_by(|one, other| one == other) {
                    self.value(name, &[("code", same[0])], same.len() as f64);
                }
            }
            "uniqueue_diagnosis_age_seconds" => {
                let Some(diagnosis) = &doctor.diagnosis else { return };
                let age = stats.asked_at - diagnosis.at + snapshot.taken_at.elapsed();
                self.value(name, &[], age.as_seconds_f64().max(0.0));
            }
            "uniqueue_sample_age_seconds" => self.value(name, &[], snapshot.taken_at.elapsed().as_secs_f64()),
            _ => {}
        }
    }

    /// A value of each queue that has one.
    fn of_queues(&mut self, name: &str, queues: &[QueueInfo], of: impl Fn(&QueueInfo) -> Option<f64>) {
        for queue in queues {
            if let Some(value) = of(queue) {
                self.value(name, &[("queue", queue.settings.name.as_str())], value);
            }
        }
    }

    /// A histogram of each queue. A bucket counts times below its bound. Prometheus reads the bound as included, which
    /// differs for equal times only.
    fn histograms(&mut self, name: &str, totals: &[QueueHistory], of: fn(&HistoryCounts) -> &Histogram) {
        for one in totals {
            let (queue, histogram) = (one.queue.as_str(), of(&one.counts));
            let mut counted = 0;
            for (bound, count) in histogram.buckets() {
                counted += count;
                let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.as_secs_f64().to_string());
                self.value(&format!("{name}_bucket"), &[("queue", queue), ("le", &bound)], counted as f64);
            }
            self.value(&format!("{name}_sum"), &[("queue", queue)], histogram.sum().as_secs_f64());
            self.value(&format!("{name}_count"), &[("queue", queue)], counted as f64);
        }
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

/// A count of the history by the name of its metric.
fn total(name: &str) -> Option<fn(&HistoryCounts) -> u64> {
    Some(match name {
        "uniqueue_queue_inserted" => |counts| counts.inserted,
        "uniqueue_queue_duplicates" => |counts| counts.duplicates,
        "uniqueue_queue_completed" => |counts| counts.completed,
        "uniqueue_queue_failed" => |counts| counts.failed,
        "uniqueue_queue_discarded" => |counts| counts.discarded,
        _ => return None,
    })
}

/// A setting of a queue as a number. `None`: it is not set.
fn setting(name: &str, settings: &QueueSettings) -> Option<f64> {
    let per_second = |rate: Rate| f64::from(rate.count) / rate.period.as_secs_f64();
    match name {
        "uniqueue_queue_paused" => Some(flag(settings.paused_at.is_some())),
        "uniqueue_queue_held" => Some(flag(settings.held_until.is_some())),
        "uniqueue_queue_limit" => settings.limit.map(f64::from),
        "uniqueue_queue_group_limit" => settings.group_limit.map(f64::from),
        "uniqueue_queue_max_waiting" => settings.max_waiting.map(f64::from),
        "uniqueue_queue_rate_per_second" => settings.rate.map(per_second),
        "uniqueue_queue_rate_burst" => settings.rate.map(|rate| f64::from(rate.burst)),
        "uniqueue_queue_group_rate_per_second" => settings.group_rate.map(per_second),
        "uniqueue_queue_group_rate_burst" => settings.group_rate.map(|rate| f64::from(rate.burst)),
        _ => None,
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
