//! The one error type.

mod conversion;
mod database;
mod debug;
mod predicates;
mod rejection;
mod text;

use std::pin::Pin;

use sqlx::postgres::PgConnectOptions;

pub(crate) use self::database::with_causes;
pub use self::rejection::Rejection;

use self::database::{connect_text, database_hint, database_text, destination};
use self::text::{map_mismatch_text, missing_state_text, not_migrated_text, rejected_text, wrong_place_text};
use crate::period::format_duration;
use crate::words::ident::{JobId, PlaceName, SchemaName};
use crate::words::outcome::BoxError;

/// A result with uniqueue's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A result to be awaited, in a box. The body of an `async fn` is compiled in each crate that awaits it, with everything that
/// it awaits, and again for each type of a generic caller. A plain function that returns this is compiled once, in this crate.
pub(crate) type AnswerFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Every error of this library, with the value at fault and a hint where there is one.
///
/// Expected outcomes are not errors: a duplicate under `ignore` is a value
/// ([`Inserted::duplicate`](crate::Inserted)).
///
/// Its `Display` is one line, for logs: the problem, and after `; hint: ` what to do. Its `Debug` is for people, for the
/// error that `main` returns: the same with the causes, and the hint on a line of its own.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An invalid name of a kind, queue, periodic job or schema.
    #[error("invalid {what}: {problem}: {given:?}")]
    InvalidName {
        /// Which name: `kind`, `queue`, `periodic job` or `schema`.
        what: &'static str,
        /// The problem.
        problem: &'static str,
        /// The name as given.
        given: String,
    },

    /// A job id that is not a UUID.
    #[error("invalid job id: {given:?}; hint: a job id is a UUID such as 019078a3-b5c7-7def-8a12-3456789abcde")]
    InvalidJobId {
        /// The text as given.
        given: String,
    },

    /// A text that is not one of the eight states.
    #[error(
        "unknown state: {given:?}; hint: one of pending, scheduled, available, running, retryable, completed, cancelled, discarded"
    )]
    UnknownState {
        /// The text as given.
        given: String,
    },

    /// An option outside its limits.
    #[error("invalid {option}: {problem}: {given}")]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// The problem.
        problem: &'static str,
        /// The value as given.
        given: String,
    },

    /// A unique key that cannot be stored: 1 to 512 bytes, no NUL.
    #[error("invalid unique key: {problem}: {given:?}")]
    InvalidKey {
        /// The problem.
        problem: &'static str,
        /// The key's first 80 characters.
        given: String,
    },

    /// A unique policy that can never work, or does not fit its job.
    #[error("invalid unique policy: {field}: {problem}")]
    InvalidPolicy {
        /// The policy's field at fault, as its JSON document spells it.
        field: &'static str,
        /// The problem, ending in the value.
        problem: String,
    },

    /// A length of time that is malformed or cannot be used here.
    #[error("invalid period: {problem}: {given:?}; hint: a length of time such as 15m, 7d or PT15M")]
    InvalidPeriod {
        /// The problem.
        problem: String,
        /// The text as given.
        given: String,
    },

    /// Job args or meta that JSON or PostgreSQL's `jsonb` cannot hold.
    #[error("invalid {what} of {kind:?}: {problem}")]
    InvalidJson {
        /// `args`, `meta` or `output`.
        what: &'static str,
        /// The job's kind.
        kind: String,
        /// The problem, ending in the value where there is one.
        problem: String,
    },

    /// An insert under `reject` (or a `replace` that met a running holder) found its key taken.
    /// Nothing of the call was inserted. The caller's transaction is still usable.
    #[error("{}", rejected_text(.0))]
    Rejected(Vec<Rejection>),

    /// An insert middleware refused the jobs. Nothing of the call was inserted, unless the middleware
    /// refused after the insert.
    #[error("the insert was refused: {0}")]
    Refused(#[source] BoxError),

    /// A parent of a job does not exist. Nothing of the call was inserted.
    #[error("no job to run after: {parent}; hint: if completed jobs are not kept, insert parent and child in one call")]
    MissingParent {
        /// The id as given.
        parent: JobId,
    },

    /// A periodic job's schedule that cannot be read, or is never due.
    #[error(
        "invalid schedule: {problem}: {given:?}; hint: a cron expression such as \"0 9 * * MON-FRI\", or an interval of whole seconds such as \"PT15M\""
    )]
    InvalidSchedule {
        /// The problem.
        problem: String,
        /// The schedule as given.
        given: String,
    },

    /// A time zone that is not in the IANA database.
    #[error("unknown time zone: {given:?}; hint: a name of the IANA database, such as Europe/Berlin")]
    UnknownTimeZone {
        /// The name as given.
        given: String,
    },

    /// The insert waited longer than its `max_wait` for another open transaction that inserts the same key or
    /// changes its holder. Nothing of the call was inserted. The caller's transaction is still usable.
    #[error(
        "another open transaction holds the unique key or locks its holder: waited {}; hint: try again, or allow a longer max_wait",
        format_duration(*waited)
    )]
    Busy {
        /// The limit that was reached.
        waited: std::time::Duration,
    },

    /// The insert would leave a queue with more available jobs than its [`max_waiting`](crate::QueueChanges::max_waiting).
    /// Nothing of the call was inserted. In a caller's transaction the database takes no more statements until a rollback,
    /// to a savepoint at the least.
    ///
    /// It [is retryable](Error::is_retryable): there is room again when workers have started jobs of the queue. Wait
    /// before the next try.
    #[error(
        "queue {queue} is full: at most {max_waiting} of its jobs may wait, and it has room for {room}; hint: try again later, let more runners work the queue, or raise its limit (`uniqueue queue max-waiting {queue} N`)"
    )]
    QueueFull {
        /// The queue.
        queue: String,
        /// Its limit.
        max_waiting: u32,
        /// How many of the call's jobs the queue could have taken.
        room: u32,
    },

    /// A job's result cannot be waited for: its queue, or a live runner of the queue, deletes jobs as they complete.
    #[error(
        "queue {queue} deletes jobs as they complete, so no wait can see their results; hint: keep completed jobs for a while (`uniqueue queue retention {queue} --completed 1m`, or the retention of the runners)"
    )]
    ResultsNotKept {
        /// The queue.
        queue: String,
    },

    /// A result came too late: the job no longer belongs to this attempt.
    #[error(
        "stale result: job {id} is no longer running attempt {attempt} of this worker: it was cancelled, rescued or ended meanwhile"
    )]
    Stale {
        /// The job.
        id: JobId,
        /// The attempt that the result belongs to.
        attempt: u16,
    },

    /// A worker asked for a value of a type that its runner was not given.
    #[error("{}", missing_state_text(wanted, given))]
    MissingState {
        /// The type's name.
        wanted: &'static str,
        /// The types that the runner was given.
        given: Vec<&'static str>,
    },

    /// A runner was started without a worker or a queue, or with two workers of one kind.
    #[error("cannot start the runner: {problem}")]
    InvalidRunner {
        /// The part that is missing or given twice.
        problem: String,
    },

    /// The schema does not exist or lacks a migration.
    #[error(
        "{}; hint: run `uniqueue migrate --schema {schema}`, or call `client.migrate()`",
        not_migrated_text(schema, *found, *needed)
    )]
    NotMigrated {
        /// The schema.
        schema: SchemaName,
        /// Its version; 0 where there is none.
        found: i32,
        /// The version that this library was built with.
        needed: i32,
    },

    /// The schema was migrated by a newer uniqueue, and a library of this version may not use it.
    #[error(
        "schema {schema} is at version {found}, which needs a uniqueue that knows version {oldest}: this one knows {known}; hint: upgrade uniqueue"
    )]
    NewerSchema {
        /// The schema.
        schema: SchemaName,
        /// Its version.
        found: i32,
        /// The oldest version of the library that may use it.
        oldest: i32,
        /// The version that this library was built with.
        known: i32,
    },

    /// The schema was made by another pre-release of uniqueue. Until the first release the migrations themselves change.
    #[error(
        "schema {schema} was made by another pre-release of uniqueue, of which it has migration {found}; hint: there is no way from one pre-release to the next: drop it (`DROP SCHEMA {schema} CASCADE`), and migrate again"
    )]
    IncompatibleSchema {
        /// The schema.
        schema: SchemaName,
        /// The first migration that is not this library's, such as `V1 job_queue`.
        found: String,
    },

    /// A migration failed; the transaction it ran in was rolled back, so nothing of it remains.
    #[error("cannot migrate schema {schema}: {problem}")]
    Migration {
        /// The schema.
        schema: SchemaName,
        /// The error of the database.
        problem: String,
    },

    /// A database URL that cannot be read.
    #[error("invalid database URL: {problem}; hint: postgres://user:password@host:5432/database")]
    InvalidUrl {
        /// The problem. The URL itself is left out, since it may hold a password.
        problem: String,
    },

    /// A map of places that cannot be right.
    #[error("invalid map of places: {problem}")]
    InvalidMap {
        /// The problem, ending in the value at fault. A URL is left out, since it may hold a password.
        problem: String,
    },

    /// A name that is in no map of this process.
    #[error("unknown place: {given:?}; hint: the places are {known}")]
    UnknownPlace {
        /// The name as given.
        given: String,
        /// The names of the map.
        known: String,
    },

    /// The schema is not the place that the map says. Nothing was sent to it.
    #[error("{}", map_mismatch_text(place, found.as_deref()))]
    MapMismatch {
        /// The place of the map.
        place: PlaceName,
        /// The place that the schema is, and its hashed places. `None`: it is none.
        found: Option<String>,
    },

    /// A job belongs to another place by the way of its kind ([`PlaceBy`](crate::PlaceBy)), or the caller's transaction is
    /// open in another place than the client's. Nothing was inserted.
    #[error("{}", wrong_place_text(kind.as_deref(), wanted, found.as_deref()))]
    WrongPlace {
        /// The kind of the job. `None`: the transaction is in the wrong place.
        kind: Option<String>,
        /// The right place: that of the job, or that of the client.
        wanted: PlaceName,
        /// The place of the insert or of the transaction. `None`: the transaction is in none.
        found: Option<String>,
    },

    /// The queue was moved to another server. Nothing was done here. It [is retryable](Error::is_retryable) with a client of
    /// the new place.
    #[error("{subject} has moved to {to}; hint: connect there: mend the URL, or the map of places")]
    PlaceMoved {
        /// The word `place` or `schema`, and the name of the one that moved.
        subject: String,
        /// Where it is now.
        to: String,
    },

    /// The schema is a copy of the place: it was restored from a dump, or is on a server that was cloned or upgraded. Nothing
    /// was sent to it.
    #[error(
        "the schema of place {place} is a copy: the place was named in another database; hint: mend the URL of the map, or run `uniqueue places adopt {place}` if no other server has the place any more"
    )]
    PlaceCopy {
        /// The place of the map.
        place: PlaceName,
    },

    /// A place does not answer. Its jobs wait, and no other place takes them. It [is retryable](Error::is_retryable).
    #[error("place {place} is down: {source}")]
    PlaceDown {
        /// The place.
        place: PlaceName,
        /// The error of its database.
        #[source]
        source: Box<Error>,
    },

    /// The embedded PostgreSQL could not be found or started.
    #[cfg(all(feature = "embedded", unix))]
    #[error(transparent)]
    Embedded(#[from] crate::embedded::Error),

    /// The first connection to the database could not be made.
    #[error("cannot connect to {to}: {said}{hint}", said = connect_text(source), hint = database_hint(source))]
    Connect {
        /// The host, port, user and database, without the password.
        to: String,
        /// The error of the connection.
        #[source]
        source: sqlx::Error,
    },

    /// The database could not be reached, or refused a statement.
    #[error("{said}{hint}", said = database_text(.0), hint = database_hint(.0))]
    Database(#[source] sqlx::Error),
}

impl Error {
    /// The error of a connection that could not be made. It names the host, the port, the user and the database.
    #[must_use]
    pub fn cannot_connect(options: &PgConnectOptions, source: sqlx::Error) -> Self {
        Error::Connect { to: destination(options), source }
    }

    /// The error of an [`InsertMiddleware`](crate::InsertMiddleware) that refuses jobs.
    pub fn refused(reason: impl Into<BoxError>) -> Self {
        Error::Refused(reason.into())
    }

    /// The holders that an insert under `reject` met. Empty for every other error.
    #[must_use]
    pub fn rejections(&self) -> &[Rejection] {
        match self {
            Error::Rejected(rejections) => rejections,
            _ => &[],
        }
    }
}
