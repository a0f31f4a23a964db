//! Charts over time, drawn on the server: axes, units, a read-out of the point under the pointer, and marks of deploys.
//!
//! The lines are SVG that stretches with the page. Texts are HTML over it, so that they keep their size. The read-out of a
//! point is in the page and shown by style sheet alone. With a script the arrow keys move it in a chart that has the focus.

use std::time::Duration;

use maud::{Markup, html};
use time::OffsetDateTime;
use time::macros::format_description;

use super::{Hostile, rate, short_count, span};

/// The height of the drawing. Its width is the number of points.
const HEIGHT: f64 = 100.0;

/// The most marks of deploys in a chart.
const MARKS: usize = 12;

/// One line of a chart.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// The style sheet's name of its colour.
    pub(crate) class: &'static str,
    /// `None`: nothing was measured.
    pub(crate) values: Vec<Option<f64>>,
}

/// The unit of a chart's values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unit {
    /// Jobs in a minute, from zero on.
    JobsAMinute,
    /// Seconds, on a logarithmic scale.
    Seconds,
}

/// The scale of one chart, or of several that are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    unit: Unit,
    low: f64,
    high: f64,
}

impl Scale {
    /// A scale that holds all of these lines.
    pub(crate) fn of<'a>(unit: Unit, lines: impl Iterator<Item = &'a Line>) -> Self {
        let values = lines.flat_map(|line| line.values.iter().flatten().copied());
        match unit {
            Unit::JobsAMinute => Self { unit, low: 0.0, high: round_up(values.fold(0.0, f64::max)) },
            Unit::Seconds => {
                let of = |value: f64| value.max(0.001);
                let (low, high) =
                    values.fold((f64::MAX, 0.001), |(low, high), value| (of(value).min(low), of(value).max(high)));
                let first = low.min(high).log10().floor() as i32;
                let decades = (high.log10().ceil() as i32 - first).max(1);
                // Ticks are equally far apart, and at most five.
                let each = (decades + 3) / 4;
                let decades = (decades + each - 1) / each * each;
                Self { unit, low: 10_f64.powi(first), high: 10_f64.powi(first + decades) }
            }
        }
    }

    /// Where a value is, from 0 at the bottom to 1.
    fn place(self, value: f64) -> f64 {
        match self.unit {
            Unit::JobsAMinute => value / self.high,
            Unit::Seconds => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
        }
        .clamp(0.0, 1.0)
    }

    /// The values at the axis, from the top to the bottom.
    fn ticks(self) -> Vec<f64> {
        match self.unit {
            Unit::JobsAMinute => vec![self.high, self.high / 2.0, 0.0],
            Unit::Seconds => {
                let decades = (self.high / self.low).log10().round() as i32;
                let each = (decades + 3) / 4;
                (0..=decades)
                    .rev()
                    .filter(|decade| decade % each == 0)
                    .map(|decade| self.low * 10_f64.powi(decade))
                    .collect()
            }
        }
    }

    fn word(self, value: f64) -> String {
        match self.unit {
            Unit::JobsAMinute if value >= 1_000.0 => short_count(value.round() as u64),
            Unit::JobsAMinute => rate(value),
            Unit::Seconds => span(Duration::try_from_secs_f64(value).unwrap_or_default()),
        }
    }
}

/// The next number of the series 1, 2, 5, 10 …, at least 1.
fn round_up(value: f64) -> f64 {
    let decade = 10_f64.powf(value.max(1.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * decade).find(|round| *round >= value).unwrap_or(value)
}

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

    fn line(values: &[Option<f64>]) -> Line {
        Line { name: "p50", class: "c1", values: values.to_vec() }
    }

    #[test]
    fn a_scale_holds_its_lines_and_ends_at_round_numbers() {
        let counts = line(&[Some(3.0), None, Some(37.0)]);
        let scale = Scale::of(Unit::JobsAMinute, [&counts].into_iter());
        assert_eq!(scale.ticks(), [50.0, 25.0, 0.0]);
        let times = line(&[Some(0.03), Some(4.0)]);
        let scale = Scale::of(Unit::Seconds, [&times].into_iter());
        assert_eq!(
            scale.ticks().iter().map(|tick| scale.word(*tick)).collect::<Vec<_>>(),
            ["10s", "1.0s", "100ms", "10ms"]
        );
        let empty = Scale::of(Unit::Seconds, [].into_iter());
        assert_eq!(empty.ticks().len(), 2);
    }

    #[test]
    fn a_line_has_a_gap_where_nothing_was_measured() {
        let values = [Some(1.0), Some(0.0), None, Some(1.0)];
        let scale = Scale::of(Unit::JobsAMinute, [&line(&values)].into_iter());
        assert_eq!(drawn(&values, scale), "M0 0H0.5L1.5 100H2M3 0H3.5H4");
    }
}
