//! Parts of the texts of errors.

use super::rejection::Rejection;
use crate::words::ident::{PlaceName, SchemaName};

pub(super) fn rejected_text(rejections: &[Rejection]) -> String {
    match rejections {
        [one] => format!("duplicate: the unique key is held by job {one}"),
        many => {
            let shown: Vec<_> = many.iter().take(3).map(ToString::to_string).collect();
            let more = if many.len() > shown.len() { ", …" } else { "" };
            format!("duplicates: {} unique keys are held by jobs {}{more}", many.len(), shown.join(", "))
        }
    }
}

pub(super) fn not_migrated_text(schema: &SchemaName, found: i32, needed: i32) -> String {
    match found {
        0 => format!("schema {schema} is not migrated: this uniqueue needs version {needed}"),
        _ => format!("schema {schema} is behind: it is at version {found}, and this uniqueue needs {needed}"),
    }
}

pub(super) fn missing_state_text(wanted: &str, given: &[&str]) -> String {
    let given = if given.is_empty() { "none".to_owned() } else { given.join(", ") };
    format!("the runner has no state of type {wanted}; hint: add it with Runner::state(…); it was given {given}")
}

pub(super) fn map_mismatch_text(place: &PlaceName, found: Option<&str>) -> String {
    match found {
        None => format!(
            "the schema of place {place} has no name yet; hint: run `uniqueue places migrate`, or call `places.migrate()` and `places.init()`"
        ),
        Some(found) => format!(
            "the map's place {place} is a schema that says it is {found}; hint: mend the URL, the schema or the hashed list of the map"
        ),
    }
}

pub(super) fn wrong_place_text(kind: Option<&str>, wanted: &PlaceName, found: Option<&str>) -> String {
    let found = found.map_or_else(|| "no place".to_owned(), |found| format!("place {found}"));
    match kind {
        Some(kind) => format!(
            "a job of kind {kind:?} belongs to place {wanted}, and this is {found}; hint: insert it with places.insert(…), or with the client that places.of_job(…) finds"
        ),
        None => format!(
            "the transaction is in {found}, not in place {wanted}; hint: begin it on the place's own pool: places.at({:?})?.pool()",
            wanted.as_str()
        ),
    }
}
