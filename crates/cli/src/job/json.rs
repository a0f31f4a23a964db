//! JSON on the command line: as it is, from a file, from standard input; and JSON for people.

use std::convert::Infallible;
use std::fs;
use std::io::{self, Read};
use std::str::FromStr;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::failure::Failure;

/// JSON as it is given: `{"a": 1}`, `@file`, or `-` for standard input.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum JsonArgument {
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
    /// The text as JSON that keeps every digit. `option` is for the error.
    pub(super) fn raw(&self, option: &str) -> Result<Box<RawValue>, Failure> {
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

    /// The same as a value, with the numbers that PostgreSQL would store.
    pub(super) fn value(&self, option: &str) -> Result<Value, Failure> {
        Ok(uniqueue::parse_json(self.raw(option)?.get())?)
    }

    fn text(&self, option: &str) -> Result<String, Failure> {
        let mut text = String::new();
        let (read, from) = match self {
            Self::Text(given) => return Ok(given.clone()),
            Self::File(path) => (fs::read_to_string(path).map(|read| text = read), path.as_str()),
            Self::StandardInput => (io::stdin().lock().read_to_string(&mut text).map(|_| ()), "standard input"),
        };
        match read {
            Ok(()) => Ok(text),
            Err(error) => {
                let hint = "it must be a file of UTF-8 that you may read";
                Err(Failure::environment(format!("cannot read {option} from {from}"), hint, error))
            }
        }
    }
}

/// JSON text spread over lines, with every digit and every member as it stands.
pub(super) fn pretty(json: &str) -> String {
    let (mut pretty, mut depth, mut is_text, mut is_escaped) = (String::new(), 0_usize, false, false);
    let line = |pretty: &mut String, depth: usize| {
        pretty.push('\n');
        pretty.push_str(&"  ".repeat(depth));
    };
    let mut characters = json.trim().chars().peekable();
    while let Some(character) = characters.next() {
        if is_text {
            pretty.push(character);
            is_text = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        match character {
            '{' | '[' => {
                pretty.push(character);
                while characters.peek().is_some_and(|next| next.is_ascii_whitespace()) {
                    characters.next();
                }
                match characters.peek() {
                    Some(end @ ('}' | ']')) => {
                        pretty.push(*end);
                        characters.next();
                    }
                    _ => {
                        depth += 1;
                        line(&mut pretty, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut pretty, depth);
                pretty.push(character);
            }
            ',' => {
                pretty.push(character);
                line(&mut pretty, depth);
            }
            ':' => pretty.push_str(": "),
            blank if blank.is_ascii_whitespace() => {}
            other => {
                is_text = other == '"';
                pretty.push(other);
            }
        }
    }
    pretty
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_spread_over_lines_and_otherwise_as_it_stands() {
        let json = r#"{"a": 12345678901234567890.10, "b{": ["x\"]\\", {}, [ ], null], "c": {"d": -1e5}}"#;
        let expected = "{\n  \"a\": 12345678901234567890.10,\n  \"b{\": [\n    \"x\\\"]\\\\\",\n    {},\n    [],\n    \
                        null\n  ],\n  \"c\": {\n    \"d\": -1e5\n  }\n}";
        assert_eq!(pretty(json), expected);
        assert_eq!(pretty("{}"), "{}");
        assert_eq!(pretty("7"), "7");
    }
}
