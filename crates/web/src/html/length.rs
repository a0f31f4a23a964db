//! Lengths of time in forms: a number, and its unit.

use std::time::Duration;

use maud::{Markup, html};

use crate::fields::UNITS;

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
    use super::*;
    use crate::fields::Fields;

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
