//! The filter of a list by args: JSON that the args contain, or plain text in them.

use serde_json::Value;
use uniqueue::JobFilter;
use uniqueue::json::parse_json;

/// A condition on args.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ArgsCondition {
    /// They contain this object or array.
    Contain(Value),
    /// This SQL/JSON path finds something in them.
    Path(String),
}

impl ArgsCondition {
    /// Reads what was typed. An object or an array is contained. `to: ada` is text in the member `to`. Anything else is text
    /// in any member.
    pub(crate) fn read(typed: &str) -> Self {
        match parse_json(typed) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => Self::Contain(value),
            Ok(Value::String(text)) => Self::Path(path(None, &text)),
            _ => match member(typed) {
                Some((names, text)) => Self::Path(path(Some(names), text)),
                None => Self::Path(path(None, typed)),
            },
        }
    }

    /// The same condition for the library.
    pub(crate) fn add_to(self, filter: JobFilter) -> JobFilter {
        match self {
            Self::Contain(value) => filter.args(value),
            Self::Path(path) => filter.args_path(path),
        }
    }
}

/// The member that a text names, with names of outer members before it, and the text that is searched there.
pub(crate) fn member(typed: &str) -> Option<(&str, &str)> {
    let (names, text) = typed.split_once(':')?;
    let (names, text) = (names.trim(), text.trim());
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|one| one.is_alphanumeric() || "_-$".contains(one));
    (!text.is_empty() && names.split('.').all(is_name)).then_some((names, text))
}

/// The path that finds a text, in upper or lower case, or a number.
fn path(names: Option<&str>, text: &str) -> String {
    let text = text.trim().trim_end_matches(['…', '*']).replace('\0', "");
    let place = match names {
        Some(names) => names.split('.').fold("$".to_owned(), |path, name| format!("{path}.{}", quoted(name))),
        None => "$.**".to_owned(),
    };
    let as_number = match serde_json::from_str(&text) {
        Ok(Value::Number(number)) => format!(" || @ == {number}"),
        Ok(word @ (Value::Bool(_) | Value::Null)) if names.is_some() => format!(" || @ == {word}"),
        _ => String::new(),
    };
    format!("{place} ? (@ like_regex {} flag \"iq\"{as_number})", quoted(&text))
}

/// A text of a path. Its escapes are JSON's.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_typed_is_json_a_member_or_text() {
        for (typed, condition) in [
            (r#"{"a": 1}"#, ArgsCondition::Contain(json!({"a": 1}))),
            ("to: ada@…", ArgsCondition::Path(r#"$."to" ? (@ like_regex "ada@" flag "iq")"#.to_owned())),
            ("user.id: 7", ArgsCondition::Path(r#"$."user"."id" ? (@ like_regex "7" flag "iq" || @ == 7)"#.to_owned())),
            ("42", ArgsCondition::Path(r#"$.** ? (@ like_regex "42" flag "iq" || @ == 42)"#.to_owned())),
            (r#"say "hi\"#, ArgsCondition::Path(r#"$.** ? (@ like_regex "say \"hi\\" flag "iq")"#.to_owned())),
            ("{not json", ArgsCondition::Path(r#"$.** ? (@ like_regex "{not json" flag "iq")"#.to_owned())),
            ("a b: c", ArgsCondition::Path(r#"$.** ? (@ like_regex "a b: c" flag "iq")"#.to_owned())),
        ] {
            assert_eq!(ArgsCondition::read(typed), condition, "{typed}");
        }
    }
}
