//! JSON on the command line: the text itself, a file, or standard input. And unique policies and keys.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::str::FromStr;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use uniqueue::{NewJob, OnConflict, UniquePolicy};

use crate::exit::Failure;

/// JSON as an argument: `{"a": 1}`, `@file`, or `-` for standard input.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum JsonArgument {
    Text(String),
    File(String),
    StandardInput,
}

impl FromStr for JsonArgument {
    type Err = Infallible;

    fn from_str(given: &str) -> Result<Self, Infallible> {
        Ok(match given.strip_prefix('@') {
            Some(path) => Self::File(path.to_owned()),
            None if given == "-" => Self::StandardInput,
            None => Self::Text(given.to_owned()),
        })
    }
}

impl JsonArgument {
    /// Reads JSON text that keeps every digit. Errors name the `option`.
    pub(crate) fn raw(&self, option: &str) -> Result<Box<RawValue>, Failure> {
        let text = self.text(option)?;
        serde_json::from_str(&text).map_err(|error| {
            let from = match self {
                Self::Text(given) => format!("{given:?}"),
                Self::File(path) => path.clone(),
                Self::StandardInput => "standard input".to_owned(),
            };
            let hint = "give JSON such as '{\"user_id\": 42}', @FILE, or - for standard input";
            Failure::refused(format!("{option} is not JSON: {error}: {from}"), hint)
        })
    }

    /// Reads a value, with the numbers that PostgreSQL would store.
    pub(crate) fn value(&self, option: &str) -> Result<Value, Failure> {
        Ok(uniqueue::json::parse_json(self.raw(option)?.get())?)
    }

    /// Reads the members of an object.
    pub(crate) fn members(&self, option: &str) -> Result<Map<String, Value>, Failure> {
        match self.value(option)? {
            Value::Object(members) => Ok(members),
            other => {
                let hint = "give an object such as '{\"tenant\": 7}'";
                Err(Failure::refused(format!("{option} is not an object: {other}"), hint))
            }
        }
    }

    fn text(&self, option: &str) -> Result<String, Failure> {
        let (read, from) = match self {
            Self::Text(given) => return Ok(given.clone()),
            Self::File(path) => (fs::read_to_string(path), path.as_str()),
            Self::StandardInput => (io::read_to_string(io::stdin()), "standard input"),
        };
        let hint = "give a readable file of UTF-8 text";
        read.map_err(|error| Failure::environment(format!("cannot read {option} from {from}"), hint, error))
    }
}

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

/// Gives a job its policy, which is that of `--policy`, or of `--key` as the document `{"key": …}`. The policy `null` gives
/// that of the registered kind up. `unique` is the option of a job that takes a policy.
pub(crate) fn with_policy(
    job: NewJob,
    policy: Option<&PolicyArgument>,
    key: Option<&str>,
    unique: fn(NewJob, UniquePolicy) -> NewJob,
) -> Result<NewJob, Failure> {
    if let Some(key) = key {
        return Ok(job.unique(UniquePolicy::from_json_with_default(&json!({ "key": key }), OnConflict::Ignore)?));
    }
    Ok(match policy.map(|policy| policy.policy_or_none("--policy")).transpose()? {
        Some(Some(policy)) => unique(job, policy),
        Some(None) => job.not_unique(),
        None => job,
    })
}

/// Gives a job its meta.
pub(crate) fn with_meta(job: NewJob, meta: &JsonArgument) -> Result<NewJob, Failure> {
    Ok(meta.members("--meta")?.into_iter().fold(job, |job, (name, value)| job.meta(name, value)))
}

/// Reads a unique key.
pub(crate) fn unique_key(given: &str) -> Result<String, String> {
    match given.len() {
        1..=512 => Ok(given.to_owned()),
        0 => Err("a unique key is not empty".to_owned()),
        bytes => Err(format!("a unique key has at most 512 bytes, and this has {bytes}")),
    }
}
