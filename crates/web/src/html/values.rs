//! Numbers of jobs, times and lengths of time, and states: a word with a dot in its colour.

use std::time::Duration;

use maud::{Markup, html};
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};
use uniqueue::{JobCount, JobState};

use crate::fields::UNITS;

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

/// A length of time in its largest unit, and the next one where the first is small.
pub(crate) fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0 if length.subsec_millis() > 0 => format!("{}ms", length.subsec_millis()),
        0 if length.subsec_micros() > 0 => "<1ms".to_owned(),
        0..10 => format!("{:.1}s", length.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..600 => format!("{minutes}m {}s", seconds % 60),
        600..3_600 => format!("{minutes}m"),
        3_600..86_400 => format!("{hours}h {}m", minutes % 60),
        86_400..864_000 => format!("{days}d {}h", hours % 24),
        _ => format!("{days}d"),
    }
}

/// A time. A script writes it in the browser's zone, where the visitor wishes so.
pub(crate) fn at(at: OffsetDateTime) -> Markup {
    let (iso, text) = texts(at);
    html! { time datetime=(iso) data-at { (text) } }
}

/// How long ago a time was, or how far ahead it is, with the time itself as its title.
pub(crate) fn ago(at: OffsetDateTime, now: OffsetDateTime) -> Markup {
    let (iso, text) = texts(at);
    html! { time datetime=(iso) title={ (text) " UTC" } data-ago { (distance(at, now)) } }
}

/// The time that is left until a time ahead. A script counts it down each second.
pub(crate) fn countdown(at: OffsetDateTime, now: OffsetDateTime) -> Markup {
    let ((iso, text), (now_iso, _)) = (texts(at), texts(now));
    html! { time.countdown datetime=(iso) title={ (text) " UTC" } data-countdown=(now_iso) { (left(at, now)) } }
}

/// Hours, minutes and seconds, always of two digits, so that the page does not move while they change.
fn left(at: OffsetDateTime, now: OffsetDateTime) -> String {
    let seconds = u64::try_from((at - now).whole_seconds()).unwrap_or(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let clock = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if days > 0 { format!("{days}d {clock}") } else { clock }
}

fn distance(at: OffsetDateTime, now: OffsetDateTime) -> String {
    let between = now - at;
    match Duration::try_from(between) {
        Ok(passed) if passed < Duration::from_secs(1) => "just now".to_owned(),
        Ok(passed) => format!("{} ago", coarse(passed)),
        Err(_) => format!("in {}", coarse(between.unsigned_abs())),
    }
}

/// A length of time without fractions.
fn coarse(length: Duration) -> String {
    span(Duration::from_secs(length.as_secs().max(1))).replace(".0s", "s")
}

fn texts(at: OffsetDateTime) -> (String, String) {
    let at = at.to_offset(UtcOffset::UTC);
    let iso = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    let text = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    (at.format(iso).unwrap_or_default(), at.format(text).unwrap_or_default())
}

/// The fields of a length of time. `Fields::need_length` reads them.
pub(crate) fn length_fields(name: &str, label: &str, length: Duration) -> Markup {
    let (number, unit) = in_unit(length);
    html! {
        input name=(name) type="number" min="0.001" step="any" value=(number) aria-label=(label) required;
        select name={ (name) "_unit" } aria-label={ (label) ", unit" } {
            @for (word, long, _) in UNITS { option value=(word) selected[*word == unit] { (long) } }
        }
    }
}

/// The number in the largest unit of which it is a whole one.
fn in_unit(length: Duration) -> (String, &'static str) {
    let micros = length.as_micros();
    let of = |unit: &&(&str, &str, u64)| micros.is_multiple_of(u128::from(unit.2) * 1_000_000);
    match UNITS.iter().rev().find(of) {
        Some((word, _, seconds)) => ((micros / 1_000_000 / u128::from(*seconds)).to_string(), word),
        None => (length.as_secs_f64().to_string(), UNITS[0].0),
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use crate::fields::Fields;

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

    #[test]
    fn a_span_has_two_units_where_the_first_is_small() {
        assert_eq!(span(Duration::from_micros(200)), "<1ms");
        assert_eq!(span(Duration::from_millis(250)), "250ms");
        assert_eq!(span(Duration::from_millis(2_500)), "2.5s");
        assert_eq!(span(Duration::from_secs(75)), "1m 15s");
        assert_eq!(span(Duration::from_secs(7_260)), "2h 1m");
        assert_eq!(span(Duration::from_secs(900_000)), "10d");
    }

    #[test]
    fn a_countdown_has_two_digits_of_each() {
        let now = datetime!(2026-01-01 0:00 UTC);
        assert_eq!(left(datetime!(2026-01-01 1:02:03.9 UTC), now), "01:02:03");
        assert_eq!(left(datetime!(2026-01-11 0:00:09 UTC), now), "10d 00:00:09");
        assert_eq!(left(datetime!(2025-12-31 0:00 UTC), now), "00:00:00");
    }

    #[test]
    fn a_time_ahead_says_in() {
        let now = datetime!(2026-01-01 0:00 UTC);
        assert_eq!(distance(datetime!(2026-01-01 0:05 UTC), now), "in 5m 0s");
        assert_eq!(distance(datetime!(2025-12-31 23:59:55 UTC), now), "5s ago");
    }

    #[test]
    fn a_length_survives_its_fields() {
        for (length, number, unit) in [
            (Duration::from_secs(90), "90", "s"),
            (Duration::from_secs(600), "10", "m"),
            (Duration::from_secs(36_000), "10", "h"),
            (Duration::from_secs(31 * 86_400), "31", "d"),
            (Duration::from_micros(100_001), "0.100001", "s"),
        ] {
            assert_eq!(in_unit(length), (number.to_owned(), unit));
            let sent = Fields::read(&format!("a={number}&a_unit={unit}"));
            assert_eq!(sent.need_length("a").unwrap(), length);
        }
    }
}
