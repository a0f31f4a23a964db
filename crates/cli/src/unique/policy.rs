//! Policies and JSON on the command line.

use std::path::Path;

use serde_json::Value;
use uniqueue::{Error, UniquePolicy};

use crate::failure::Failure;

/// Reads a policy: its document, or the file that holds it.
pub(super) fn read(given: &str) -> Result<UniquePolicy, Failure> {
    let document = if given.trim_start().starts_with('{') { given.to_owned() } else { file("--policy", given)? };
    let document = json("--policy", &document)?;
    Ok(UniquePolicy::from_ojs(&document)?)
}

/// Reads a value: JSON, or with `@` before it the file that holds it.
pub(super) fn value(option: &str, given: &str) -> Result<Value, Failure> {
    match given.strip_prefix('@') {
        Some(path) => json(option, &file(option, path)?),
        None => json(option, given),
    }
}

fn file(option: &str, path: &str) -> Result<String, Failure> {
    std::fs::read_to_string(Path::new(path)).map_err(|error| {
        let hint = format!("{option} takes JSON, such as '{{\"keys\": [\"args\"]}}', or a file that holds it");
        Failure::environment(format!("cannot read {}", path.escape_debug()), hint, error)
    })
}

fn json(option: &str, text: &str) -> Result<Value, Failure> {
    uniqueue::parse_json(text).map_err(|error| {
        // The library reads JSON for keys, and says so; here it is about the text.
        let problem = match error {
            Error::InvalidKey { given, .. } => given,
            other => other.to_string(),
        };
        Failure::refused(format!("{option} is not JSON: {problem}"), "quote it for the shell: '{\"user_id\": 42}'")
    })
}
