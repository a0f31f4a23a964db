//! `/metrics`: the latest sample as OpenMetrics text. A scrape sends no query. Over several places each value has a label
//! with its place.

mod table;

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use uniqueue::PlaceName;

use self::table::{METRICS, Page, Values, flag};
use crate::app::App;
use crate::sampler::Seen;

/// The content type that Prometheus asks for.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The latest sample. Without one only the build and a failed sample.
pub(crate) async fn show(State(app): State<Arc<App>>) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], text(&app.latest().await)).into_response()
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

#[cfg(test)]
mod tests {
    use super::*;

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
