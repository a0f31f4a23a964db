//! The lines of a chart, and the scale of their values.

use std::time::Duration;

use super::{rate, short_count, span};

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
    pub(super) fn place(self, value: f64) -> f64 {
        match self.unit {
            Unit::JobsAMinute => value / self.high,
            Unit::Seconds => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
        }
        .clamp(0.0, 1.0)
    }

    /// The values at the axis, from the top to the bottom.
    pub(super) fn ticks(self) -> Vec<f64> {
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

    pub(super) fn word(self, value: f64) -> String {
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
}
