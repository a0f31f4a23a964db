//! Charts, drawn as SVG on the server.

use maud::{Markup, html};

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 36.0;

/// A line over the last points, the newest at the right. `points` is how many fit.
pub(crate) fn sparkline(label: &str, class: &str, values: &[f64], points: usize) -> Markup {
    let max = values.iter().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let step = WIDTH / (points.max(2) - 1) as f64;
    let first = points.saturating_sub(values.len());
    let place = |(at, value): (usize, &f64)| {
        let y = HEIGHT - 2.0 - (HEIGHT - 4.0) * (value / max).clamp(0.0, 1.0);
        format!("{:.1},{y:.1}", (first + at) as f64 * step)
    };
    let line = values.iter().enumerate().map(place).collect::<Vec<_>>().join(" ");
    let area = match values.is_empty() {
        true => String::new(),
        false => format!("{:.1},{HEIGHT} {line} {WIDTH},{HEIGHT}", first as f64 * step),
    };
    html! {
        svg class={ "spark " (class) } viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img"
            aria-label=(label) {
            polygon points=(area) {}
            polyline points=(line) vector-effect="non-scaling-stroke" {}
        }
    }
}
