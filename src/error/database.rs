//! The text of a database error: the server's message and a hint.

use sqlx::postgres::PgConnectOptions;

/// The text of a database error, without the line number that sqlx adds: it is a line of PostgreSQL's source, and reads
/// as one of the statement.
pub(super) fn database_text(error: &sqlx::Error) -> String {
    match error {
        // A function of the schema refused a value, and says which.
        sqlx::Error::Database(error) if error.code().is_some_and(|code| code == "22023") => one_line(error.message()),
        sqlx::Error::Database(error) => format!("error returned from database: {}", one_line(error.message())),
        other => one_line(&other.to_string()),
    }
}

/// The text of an error while connecting.
pub(super) fn connect_text(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(error) => one_line(error.message()),
        sqlx::Error::Io(error) => error.to_string(),
        other => database_text(other),
    }
}

/// Where a connection goes to, without the password: `database "app" at db.example:5432 as user "app"`.
pub(super) fn destination(options: &PgConnectOptions) -> String {
    let (user, port) = (options.get_username(), options.get_port());
    let at = match options.get_socket() {
        Some(socket) => format!("{}, port {port}", socket.display()),
        None if options.get_host().starts_with('/') => format!("{}, port {port}", options.get_host()),
        None => format!("{}:{port}", options.get_host()),
    };
    // The server's default database is that of the user's name.
    format!("database {:?} at {at} as user {user:?}", options.get_database().unwrap_or(user))
}

/// A text of several lines on one line.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A hint for the database errors that a new user meets first.
pub(super) fn database_hint(error: &sqlx::Error) -> &'static str {
    match error {
        sqlx::Error::Io(error) if error.to_string().contains("certificate") => {
            "; hint: check the server's certificate, or sslmode and sslrootcert in the URL"
        }
        sqlx::Error::Io(_) => "; hint: is PostgreSQL running, and is the URL's host and port right?",
        sqlx::Error::Tls(_) => {
            "; hint: for TLS to the database, switch on one of sqlx's features, such as tls-rustls-ring-native-roots"
        }
        sqlx::Error::PoolTimedOut => {
            "; hint: is PostgreSQL running? If it is, the pool has too few connections for its users"
        }
        sqlx::Error::Database(error) => match error.code().as_deref() {
            Some("42P01" | "3F000" | "42883" | "42703") => {
                "; hint: is the schema migrated? Run `uniqueue migrate`, or call `client.migrate()`"
            }
            Some("42501") => {
                "; hint: the role lacks a privilege: the guide for operators lists the grants of each role"
            }
            Some("22P05") => {
                "; hint: the queue needs a database with the encoding UTF8: createdb --encoding UTF8 --template template0"
            }
            Some("3D000") => "; hint: create the database first, with `createdb`",
            _ if is_mix_up(&**error) => MIXED_UP,
            Some("08P01") if error.message().contains("startup parameter") => {
                "; hint: let PgBouncer ignore it: ignore_startup_parameters = extra_float_digits"
            }
            Some("28P01" | "28000") => "; hint: check the user and the password of the database URL",
            _ => "",
        },
        _ => "",
    }
}

/// An error's text with those of its causes, each once.
pub(crate) fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    append_causes(String::new(), Some(error))
}

/// A text with those of an error and of its causes, each once.
pub(super) fn append_causes(mut text: String, error: Option<&(dyn std::error::Error + 'static)>) -> String {
    let mut next = error;
    while let Some(error) = next {
        let by_sqlx: Option<&sqlx::Error> = error.downcast_ref();
        let said = by_sqlx.map_or_else(|| error.to_string(), database_text);
        if text.is_empty() {
            text = said;
        } else if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        // Its source has the server's message once more, with that line number.
        next = error.source().filter(|_| !matches!(by_sqlx, Some(sqlx::Error::Database(_))));
    }
    text
}

/// The hint for a client of a pooler that mixes up the prepared statements of its clients.
const MIXED_UP: &str = "; hint: through PgBouncer in transaction mode, version 1.21 or newer is needed, with \
     max_prepared_statements above 0";

/// Whether a prepared statement is unknown to the server, or known already, because a pooler switched sessions.
pub(super) fn is_mix_up(error: &dyn sqlx::error::DatabaseError) -> bool {
    match error.code().as_deref() {
        Some("26000" | "42P05") => true,
        Some("08P01") => error.message().contains("prepared statement"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    #[test]
    fn a_destination_has_everything_but_the_password() {
        let to = |url: &str| destination(&PgConnectOptions::from_str(url).unwrap());
        assert_eq!(
            to("postgres://ada:secret@db.example:5433/app"),
            r#"database "app" at db.example:5433 as user "ada""#
        );
        assert_eq!(
            to("postgres://ada:secret@localhost/app?host=%2Frun%2Fpostgresql&port=5433"),
            r#"database "app" at /run/postgresql, port 5433 as user "ada""#
        );
    }

    #[test]
    fn a_text_of_several_lines_is_one_line() {
        assert_eq!(one_line("a\n  b\r\n\nc"), "a b c");
    }
}
