//! Unique policies on the command line.

use uniqueue::UniquePolicy;

use crate::failure::Failure;
use crate::json_argument::JsonArgument;

/// Reads a policy: a JSON document, or the name of a file that holds one.
pub(super) fn read_policy(given: &str) -> Result<UniquePolicy, Failure> {
    let document = match given.trim_start().starts_with('{') {
        true => JsonArgument::Text(given.to_owned()),
        false => JsonArgument::File(given.to_owned()),
    };
    Ok(UniquePolicy::from_ojs(&document.value("--policy")?)?)
}
