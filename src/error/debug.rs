//! Errors for people: as `main` prints the one that it returns.

use std::error::Error as _;
use std::fmt;

use super::Error;
use super::database::append_causes;

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
    #[must_use]
    pub fn problem(&self) -> String {
        let text = self.to_string();
        text.split_once(HINT).map(|(problem, _)| problem.to_owned()).unwrap_or(text)
    }
}

/// Stands between a problem and its hint.
const HINT: &str = "; hint: ";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ident::JobId;

    #[test]
    fn debug_is_fit_for_main_and_display_for_a_log() {
        let error = "x".parse::<JobId>().unwrap_err();
        let hint = "a job id is a UUID such as 019078a3-b5c7-7def-8a12-3456789abcde";
        assert_eq!(error.to_string(), format!("invalid job id: \"x\"; hint: {hint}"));
        assert_eq!(format!("{error:?}"), format!("invalid job id: \"x\"\nhint: {hint}"));
        let refused = Error::refused(std::io::Error::other("the disk is full"));
        assert_eq!(format!("{refused:?}"), "the insert was refused: the disk is full");
    }

    #[test]
    fn no_text_of_an_error_has_a_second_line() {
        for source in [include_str!("../error.rs"), include_str!("database.rs"), include_str!("text.rs")] {
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
