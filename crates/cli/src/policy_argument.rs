//! Unique policies and keys on the command line.

use std::convert::Infallible;
use std::str::FromStr;

use serde_json::{Value, json};
use uniqueue::{OnConflict, UniquePolicy};

use crate::failure::Failure;
use crate::json_argument::JsonArgument;

/// A unique policy as an argument: a JSON document, a file's name with or without `@`, or `-` for standard input.
#[derive(Clone, Debug)]
pub(crate) struct PolicyArgument(JsonArgument);

impl FromStr for PolicyArgument {
    type Err = Infallible;

    fn from_str(given: &str) -> Result<Self, Infallible> {
        let given: JsonArgument = given.parse()?;
        Ok(Self(match given {
            JsonArgument::Text(text) if !text.trim_start().starts_with('{') && text.trim() != "null" => {
                JsonArgument::File(text)
            }
            document => document,
        }))
    }
}

impl PolicyArgument {
    /// Reads the policy of `--policy`. Without an `on_conflict` of its own a duplicate is ignored.
    pub(crate) fn policy(&self) -> Result<UniquePolicy, Failure> {
        Ok(UniquePolicy::from_json_with_default(&self.0.value("--policy")?, OnConflict::Ignore)?)
    }

    /// Reads the policy, or `null`, which gives the policy of a registered kind up. Errors name the `option`.
    pub(crate) fn policy_or_none(&self, option: &str) -> Result<Option<UniquePolicy>, Failure> {
        match self.0.value(option)? {
            Value::Null => Ok(None),
            document => Ok(Some(UniquePolicy::from_json_with_default(&document, OnConflict::Ignore)?)),
        }
    }
}

/// The policy of `--key`, which is that of the document `{"key": …}`.
pub(crate) fn policy_of_key(key: &str) -> Result<UniquePolicy, Failure> {
    Ok(UniquePolicy::from_json_with_default(&json!({ "key": key }), OnConflict::Ignore)?)
}

/// Reads a unique key.
pub(crate) fn unique_key(given: &str) -> Result<String, String> {
    match given.len() {
        1..=512 => Ok(given.to_owned()),
        0 => Err("a unique key is not empty".to_owned()),
        bytes => Err(format!("a unique key has at most 512 bytes, and this has {bytes}")),
    }
}
