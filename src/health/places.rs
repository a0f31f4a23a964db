//! Problems of places that no place sees by itself.

use std::collections::BTreeMap;

use super::finding::{Finding, FindingCode, Remedy, Severity};
use super::wording::plain;
use crate::error::Error;
use crate::ident::PlaceName;

/// The most bytes of a value that a sentence shows.
const SHOWN: usize = 60;

/// A place that cannot be asked.
pub(crate) fn refused(place: &PlaceName, error: &Error) -> Finding {
    let (code, severity, advice) = match error {
        Error::PlaceDown { .. } => (
            FindingCode::PlaceDown,
            Severity::Warning,
            "See whether its server runs. Its jobs wait there, and no other place gets them meanwhile",
        ),
        Error::MapMismatch { .. } => (
            FindingCode::PlaceMismatch,
            Severity::Critical,
            "Mend the URL, the schema or the hashed list of the map. A new place gets its name from `uniqueue places init`",
        ),
        Error::NotMigrated { .. } | Error::NewerSchema { .. } | Error::IncompatibleSchema { .. } => (
            FindingCode::PlaceVersion,
            Severity::Warning,
            "Run `uniqueue places migrate` with the newest version, and give that version to all processes",
        ),
        _ => (FindingCode::CheckFailed, Severity::Warning, "See the log of its server"),
    };
    Finding::new(
        code,
        severity,
        format!("place {}", plain(place.as_str())),
        plain(&error.to_string()),
        Remedy::advice(advice),
    )
}

/// The values of one subject's settings: by setting and value the places that have it.
pub(crate) type Settings<'a> = BTreeMap<String, BTreeMap<String, Vec<&'a PlaceName>>>;

/// The settings of a queue or a kind that differ between hashed places. `None`: none differs.
pub(crate) fn settings(subject: &str, settings: &Settings<'_>) -> Option<Finding> {
    let mut differing = Vec::new();
    for (setting, values) in settings.iter().filter(|(_, values)| values.len() > 1) {
        let each = values.iter().map(|(value, places)| {
            let places = places.iter().map(|place| plain(place.as_str())).collect::<Vec<_>>().join(", ");
            let end = value.floor_char_boundary(SHOWN);
            let more = if end < value.len() { "…" } else { "" };
            format!("{}{more} in {places}", plain(&value[..end]))
        });
        differing.push(format!("{setting} is {}", each.collect::<Vec<_>>().join(", and ")));
    }
    let advice = "Give it the same settings in each of the places that share hashed values: a job is worked by those of its own place";
    let seen = differing.join("; ");
    let finding =
        || Finding::new(FindingCode::PlaceSettings, Severity::Warning, plain(subject), seen, Remedy::advice(advice));
    (!differing.is_empty()).then(finding)
}

/// A key that several hashed places claim.
pub(crate) fn doubled_key(key: &str, places: &[PlaceName]) -> Finding {
    let names = places.iter().map(|place| plain(place.as_str())).collect::<Vec<_>>().join(", ");
    let advice = "Insert its jobs with `Places::insert`, or into the place of the key by hand. Cancel the jobs in the other places";
    let seen = format!("it is claimed in {names}");
    Finding::new(
        FindingCode::KeyInPlaces,
        Severity::Critical,
        format!("key {}", plain(key)),
        seen,
        Remedy::advice(advice),
    )
}
