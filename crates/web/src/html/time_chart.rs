//! Charts over time, drawn on the server: axes, units, a read-out of the point under the pointer, and marks of deploys.
//!
//! The lines are SVG that stretches with the page. Texts are HTML over it, so that they keep their size. The read-out of a
//! point is in the page and shown by style sheet alone. With a script the arrow keys move it in a chart that has the focus.

use std::time::Duration;

use maud::{Markup, html};
use time::OffsetDateTime;
use time::macros::format_description;

use super::Hostile;
use super::scale::{Line, Scale};

/// The height of the drawing. Its width is the number of points.
const HEIGHT: f64 = 100.0;

/// The most marks of deploys in a chart.
const MARKS: usize = 12;

/// The time of a chart.
pub(crate) struct Axis<'a> {
    /// The starts of the points, the oldest first.
    pub(crate) starts: &'a [OffsetDateTime],
    pub(crate) step: Duration,
    /// When something was deployed, and what.
    pub(crate) marks: &'a [(OffsetDateTime, &'a str)],
}

impl Axis<'_> {
    /// The share of the width at which a time is. `None`: it is outside.
    fn place(&self, at: OffsetDateTime) -> Option<f64> {
        let first = *self.starts.first()?;
        let whole = self.step.as_secs_f64() * self.starts.len() as f64;
        let place = (at - first).as_seconds_f64() / whole;
        (0.0..=1.0).contains(&place).then_some(place)
    }

    /// The last version deployed in a step.
    fn mark(&self, at: usize) -> Option<&str> {
        let of = |mark: &&(OffsetDateTime, &str)| mark.0 >= self.starts[at] && mark.0 < self.starts[at] + self.step;
        self.marks.iter().rev().take(MARKS).find(of).map(|(_, version)| *version)
    }

    fn word(&self, at: OffsetDateTime) -> String {
        let is_long = self.step.as_secs() * self.starts.len() as u64 > 2 * 86_400;
        let text = match is_long {
            true => at.format(format_description!("[month]-[day] [hour]:[minute]")),
            false => at.format(format_description!("[hour]:[minute]")),
        };
        text.unwrap_or_default()
    }
}

/// A chart of lines over time.
pub(crate) fn time_chart(title: &str, unit: &str, lines: &[Line], scale: Scale, axis: &Axis<'_>) -> Markup {
    let points = axis.starts.len().max(1);
    let last = |line: &Line| {
        line.values.iter().rev().flatten().next().map_or_else(|| "–".to_owned(), |value| scale.word(*value))
    };
    let said = lines.iter().map(|line| format!("{} {}", line.name, last(line))).collect::<Vec<_>>().join(", ");
    let ticks = scale.ticks();
    let middle = axis.starts.get(points / 2).copied();
    html! {
        figure.time-chart tabindex="0" aria-label={ (title) ", " (unit) ". Last: " (said) } {
            figcaption {
                h3 { (title) } span.note { (unit) }
                span.legend { @for line in lines { i class=(line.class) { (line.name) } " " } }
            }
            div.plot {
                svg viewBox={ "0 0 " (points) " " (HEIGHT) } preserveAspectRatio="none" aria-hidden="true" {
                    @for tick in &ticks {
                        @let y = height(scale.place(*tick));
                        path.grid d={ "M0 " (y) "H" (points) } vector-effect="non-scaling-stroke" {}
                    }
                    @for (at, _) in axis.marks.iter().rev().take(MARKS) {
                        @if let Some(place) = axis.place(*at) {
                            @let x = tenths(place * points as f64);
                            path.deploy d={ "M" (x) " 0V" (HEIGHT) } vector-effect="non-scaling-stroke" {}
                        }
                    }
                    @for line in lines {
                        path class=(line.class) d=(drawn(&line.values, scale)) vector-effect="non-scaling-stroke" {}
                    }
                }
                div.points {
                    @for at in 0..axis.starts.len() {
                        i {
                            b { (read_out(at, lines, scale, axis)) }
                            @if let Some(version) = axis.mark(at) { u { (Hostile(version)) } }
                        }
                    }
                }
                div.y aria-hidden="true" { @for tick in &ticks { span { (scale.word(*tick)) } } }
            }
            div.x aria-hidden="true" {
                @if let Some(first) = axis.starts.first() { span { (axis.word(*first)) } }
                @if let Some(middle) = middle { span { (axis.word(middle)) } }
                @if let Some(last) = axis.starts.last() { span { (axis.word(*last + axis.step)) " UTC" } }
            }
        }
    }
}

/// The read-out of a point: its time, and the value of each line.
fn read_out(at: usize, lines: &[Line], scale: Scale, axis: &Axis<'_>) -> String {
    let mut text = axis.word(axis.starts[at]);
    for line in lines {
        if let Some(value) = line.values.get(at).copied().flatten() {
            text.push_str(&format!(" · {} {}", line.name, scale.word(value)));
        }
    }
    text
}

/// The path of a line, with gaps where nothing was measured. A point alone is a dash as wide as the point.
fn drawn(values: &[Option<f64>], scale: Scale) -> String {
    let mut path = String::new();
    let mut is_on = false;
    for (at, value) in values.iter().enumerate() {
        let Some(value) = value else {
            is_on = false;
            continue;
        };
        let y = height(scale.place(*value));
        path.push_str(&match is_on {
            true => format!("L{}.5 {y}", at),
            false => format!("M{at} {y}H{at}.5"),
        });
        is_on = true;
        if values.get(at + 1).copied().flatten().is_none() {
            path.push_str(&format!("H{}", at + 1));
        }
    }
    path
}

fn height(place: f64) -> String {
    tenths(HEIGHT * (1.0 - place))
}

fn tenths(number: f64) -> String {
    format!("{:.1}", number).trim_end_matches(".0").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::Unit;

    #[test]
    fn a_line_has_a_gap_where_nothing_was_measured() {
        let values = [Some(1.0), Some(0.0), None, Some(1.0)];
        let line = Line { name: "failed", class: "l-failed", values: values.to_vec() };
        let scale = Scale::of(Unit::JobsAMinute, [&line].into_iter());
        assert_eq!(drawn(&values, scale), "M0 0H0.5L1.5 100H2M3 0H3.5H4");
    }
}
