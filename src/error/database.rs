//! The text of a database error: the server's message and a hint.

/// The text of a database error, without the line number that sqlx adds: it is a line of PostgreSQL's source, and reads
/// as one of the statement.
pub(super) fn database_text(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(error) => format!("error returned from database: {}", error.message()),
        other => other.to_string(),
    }
}

/// A hint for the database errors that a new user meets first.
pub(super) fn database_hint(error: &sqlx::Error) -> &'static str {
    match error {
        sqlx::Error::Io(_) => "\nhint: is PostgreSQL running, and is the URL's host and port right?",
        sqlx::Error::Tls(_) => {
            "\nhint: for TLS to the database, switch on one of sqlx's features, such as tls-rustls-ring-native-roots"
        }
        sqlx::Error::PoolTimedOut => {
            "\nhint: is PostgreSQL running? If it is, the pool has too few connections for its users"
        }
        sqlx::Error::Database(error) => match error.code().as_deref() {
            Some("42P01" | "3F000" | "42883" | "42703") => {
                "\nhint: is the schema migrated? Run `uniqueue migrate`, or call `client.migrate()`"
            }
            Some("42501") => "\nhint: the role lacks a privilege; see docs/operations.md for the grants",
            Some("22P05") => {
                "\nhint: the queue needs a database with the encoding UTF8: createdb --encoding UTF8 --template template0"
            }
            Some("3D000") => "\nhint: create the database first, with `createdb`",
            _ if is_mix_up(&**error) => MIXED_UP,
            Some("08P01") if error.message().contains("startup parameter") => {
                "\nhint: let PgBouncer ignore it: ignore_startup_parameters = extra_float_digits"
            }
            Some("28P01" | "28000") => "\nhint: check the user and the password of the database URL",
            _ => "",
        },
        _ => "",
    }
}

/// An error's text with those of its causes, each once.
pub(crate) fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
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
const MIXED_UP: &str = "\nhint: through PgBouncer in transaction mode, version 1.21 or newer is needed, with \
     max_prepared_statements above 0";

/// Whether a prepared statement is unknown to the server, or known already, because a pooler switched sessions.
pub(super) fn is_mix_up(error: &dyn sqlx::error::DatabaseError) -> bool {
    match error.code().as_deref() {
        Some("26000" | "42P05") => true,
        Some("08P01") => error.message().contains("prepared statement"),
        _ => false,
    }
}
