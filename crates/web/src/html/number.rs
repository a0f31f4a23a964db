//! Numbers of jobs, and states: a word with a dot in its colour.

use maud::{Markup, html};
use uniqueue::{JobCount, JobState};

pub(crate) use uniqueue_admin::thousands as grouped;

/// A number of jobs. The sign before it says whether it is an estimate or a lower bound.
pub(crate) fn count(count: JobCount) -> String {
    if count.is_exact() { grouped(count.counted()) } else { count.to_string() }
}

/// A number in few characters: thousands are rounded.
pub(crate) fn short_count(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..9_950 => format!("{:.1} k", number as f64 / 1e3),
        9_950..999_500 => format!("{} k", (number as f64 / 1e3).round()),
        _ => format!("{:.1} M", number as f64 / 1e6),
    }
}

/// Jobs a second.
pub(crate) fn rate(rate: f64) -> String {
    match rate {
        rate if !rate.is_finite() || rate <= 0.0 => "0".to_owned(),
        rate if rate < 0.1 => "<0.1".to_owned(),
        rate if rate < 100.0 => format!("{rate:.1}"),
        rate => grouped(rate.round() as u64),
    }
}

/// The class that gives a state its colour.
pub(crate) fn state_class(state: JobState) -> String {
    format!("s-{state}")
}

/// A state.
pub(crate) fn state(state: JobState) -> Markup {
    html! { span class={ "state " (state_class(state)) } { (state.as_str()) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_say_what_they_are() {
        assert_eq!(
            [JobCount::Exactly(9_719), JobCount::About(537_261), JobCount::AtLeast(10_000)].map(count),
            ["9,719", "~537 k", "> 10 k"]
        );
        assert_eq!(
            [999, 1_000, 9_949, 9_950, 537_261, 999_500].map(short_count),
            ["999", "1.0 k", "9.9 k", "10 k", "537 k", "1.0 M"]
        );
        assert_eq!(rate(0.02), "<0.1");
        assert_eq!(rate(12_345.6), "12,346");
    }
}
