//! Problems of places that no place sees by itself.

use std::collections::BTreeMap;

use super::finding::{Finding, Remedy, Severity};
use crate::error::Error;
use crate::words::ident::PlaceName;

/// The most bytes of a value that a sentence shows.
const SHOWN: usize = 60;

/// A place that cannot be asked.
pub(crate) fn refused(place: &PlaceName, error: &Error) -> Finding {
    let (code, severity, advice) = match error {
        Error::PlaceDown { .. } => (
            "place_down",
            Severity::Warning,
            "See whether its server runs. Its jobs wait there, and no other place gets them meanwhile",
        ),
        Error::MapMismatch { .. } | Error::PlaceCopy { .. } | Error::PlaceMoved { .. } => (
            "place_mismatch",
            Severity::Critical,
            "Mend the URL, the schema or the hashed list of the map. A new place gets its name from `uniqueue places migrate`, a restored one from `uniqueue places adopt`",
        ),
        Error::NotMigrated { .. } | Error::NewerSchema { .. } | Error::IncompatibleSchema { .. } => (
            "place_version",
            Severity::Warning,
            "Run `uniqueue places migrate` with the newest version, and give that version to all processes",
        ),
        _ => ("check_failed", Severity::Warning, "See the log of its server"),
    };
    Finding::new(
        code,
        severity,
        format!("place {}", plain(place.as_str())),
        plain(&error.to_string()),
        Remedy::advice(advice),
    )
}

/// A setting whose values differ between places: its name, and by value the places that have it.
pub(crate) type Setting<'a> = (&'a str, BTreeMap<&'a str, Vec<&'a PlaceName>>);

/// The settings of a queue or a kind that differ between hashed places.
pub(crate) fn settings(subject: &str, settings: &[Setting<'_>]) -> Finding {
    let of = |(setting, values): &Setting<'_>| {
        let each = values.iter().map(|(value, places)| {
            let end = value.floor_char_boundary(SHOWN);
            let more = if end < value.len() { "…" } else { "" };
            format!("{}{more} in {}", plain(&value[..end]), names(places.iter().copied()))
        });
        format!("{setting} is {}", each.collect::<Vec<_>>().join(", and "))
    };
    let advice = "Give it the same settings in each of the places that share hashed values: a job is worked by those of its own place";
    Finding::new(
        "place_settings",
        Severity::Warning,
        plain(subject),
        settings.iter().map(of).collect::<Vec<_>>().join("; "),
        Remedy::advice(advice),
    )
}

/// A key that several hashed places claim.
pub(crate) fn doubled_key(key: &str, places: &[PlaceName]) -> Finding {
    let advice = "Insert its jobs with `Places::insert`, or into the place of the key by hand. Cancel the jobs in the other places";
    Finding::new(
        "key_in_places",
        Severity::Critical,
        format!("key {}", plain(key)),
        format!("it is claimed in {}", names(places)),
        Remedy::advice(advice),
    )
}

fn names<'a>(places: impl IntoIterator<Item = &'a PlaceName>) -> String {
    places.into_iter().map(|place| plain(place.as_str())).collect::<Vec<_>>().join(", ")
}

/// A text on one line: it may hold control characters.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
