//! Errors as text.

use std::error::Error as _;
use std::fmt;

use super::database::append_causes;
use super::{Error, Rejection};
use crate::ident::SchemaName;

/// For people: the problem with its causes, and the hint on a line of its own.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.to_string();
        let (problem, hint) = text.split_once(HINT).map_or((text.as_str(), None), |(text, hint)| (text, Some(hint)));
        match self {
            // The text of a database error is part of the problem, less the line number that sqlx adds.
            Error::Database(_) | Error::Connect { .. } => f.write_str(problem)?,
            _ => f.write_str(&append_causes(problem.to_owned(), self.source()))?,
        }
        hint.map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl Error {
    /// The problem without the hint.
    pub(crate) fn problem(&self) -> String {
        let text = self.to_string();
        text.split_once(HINT).map(|(problem, _)| problem.to_owned()).unwrap_or(text)
    }
}

/// Stands between a problem and its hint.
const HINT: &str = "; hint: ";

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::JobId;

    #[test]
    fn debug_is_fit_for_main_and_display_for_a_log() {
        let error = "x".parse::<JobId>().unwrap_err();
        let hint = "a job id is a UUID such as 019078a3-b5c7-7def-8a12-3456789abcde";
        assert_eq!(error.to_string(), format!("invalid job id: \"x\"; hint: {hint}"));
        assert_eq!(format!("{error:?}"), format!("invalid job id: \"x\"\nhint: {hint}"));
        let refused = Error::refused(std::io::Error::other("the disk is full"));
        assert_eq!(format!("{refused:?}"), "the insert was refused: the disk is full");
        let embedded = Error::Embedded {
            problem: "cannot start".to_owned(),
            hint: "look".to_owned(),
            source: Some(std::io::Error::other("no such file")),
        };
        assert_eq!(format!("{embedded:?}"), "cannot start: no such file\nhint: look");
        assert_eq!(embedded.to_string(), "cannot start; hint: look");
    }

    #[test]
    fn no_text_of_an_error_has_a_second_line() {
        for source in [include_str!("../error.rs"), include_str!("database.rs")] {
            assert!(!source.contains(r"\nhint"), "a hint stands on the line of its problem, after `; hint: `");
        }
    }

    #[tokio::test]
    async fn a_connection_that_fails_names_where_it_goes_and_not_the_password() {
        let error = crate::Client::connect("postgres://ada:secret@127.0.0.1:1/app").await.unwrap_err();
        let said = r#"cannot connect to database "app" at 127.0.0.1:1 as user "ada": "#;
        for text in [error.to_string(), format!("{error:?}")] {
            assert!(text.starts_with(said) && !text.contains("secret"), "{text}");
            assert_eq!(text.matches("onnection refused").count(), 1, "{text}");
        }
        assert!(!error.to_string().contains('\n'), "{error}");
        assert!(error.is_retryable(), "{error}");
    }
}
