//! The database of a command, which its arguments name, or a throw-away server. And the way of a command that asks it: open,
//! ask, close, print, verdict.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection};
use uniqueue::embedded::Postgres;
use uniqueue::{Error, PlaceName, Places, Result, SchemaName};

use crate::exit::answered;
use crate::places::{self, Choice};
use crate::prelude::*;

/// The server ends a query whose client is gone. Without this, a search through a large table would run to its end after
/// Ctrl-C.
const CHECK_CLIENT_CONNECTION: &str = "SET client_connection_check_interval = '1s'";

/// How long a connection and its first query may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The arguments of every command that connects to a database.
#[derive(Clone, Debug, Args)]
pub(crate) struct DatabaseArguments {
    /// The database, such as postgres://user@host:5432/database. Other users of this machine can read arguments: give a
    /// password in DATABASE_URL or in ~/.pgpass
    #[arg(long, global = true, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: Option<String>,

    /// The schema that holds the queue
    #[arg(long, global = true, value_name = "NAME", env = "UNIQUEUE_SCHEMA", default_value_t, value_parser = schema_name)]
    pub(crate) schema: SchemaName,

    /// Print JSON instead of text: one object, or one object a line for a list
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl DatabaseArguments {
    /// The schema of the chosen place, or else that of the arguments.
    pub(crate) fn schema(&self) -> &SchemaName {
        match places::choice() {
            Some(Choice::One(place)) => place.schema_name(),
            _ => &self.schema,
        }
    }
}

/// A connected database.
pub(crate) struct Database {
    pub(crate) client: Client,
    /// The URL, which may hold a password.
    pub(crate) url: String,
    /// The server, if this command started it.
    pub(crate) postgres: Option<Postgres>,
}

impl Database {
    /// Opens the database that the arguments name.
    pub(crate) async fn open(arguments: &DatabaseArguments, connections: u32) -> Result<Self, Failure> {
        let url = match places::choice() {
            Some(Choice::One(place)) => Some(place.url()),
            Some(Choice::All(_)) => {
                return Err(Failure::refused(
                    "this command works in one place at a time",
                    "name it with --place; the commands that ask all places are doctor, stats, serve and the lists",
                ));
            }
            None => url(arguments),
        };
        match url {
            Some(url) => Self::connect(url, arguments, connections, None).await,
            None => Err(Failure::refused(
                "no database given",
                "give --database-url or set DATABASE_URL; `uniqueue db start` runs a database",
            )),
        }
    }

    /// Opens the database that the arguments name. Fails unless its schema has the version that this uniqueue needs.
    pub(crate) async fn open_migrated(arguments: &DatabaseArguments) -> Result<Self, Failure> {
        let database = Self::open(arguments, 2).await?;
        database.client.check_schema().await?;
        Ok(database)
    }

    /// The same for a role that may not read the version, as one that only inserts. Its statements fail where the schema has
    /// another version.
    pub(crate) async fn open_to_insert(arguments: &DatabaseArguments) -> Result<Self, Failure> {
        let database = Self::open(arguments, 2).await?;
        match database.client.check_schema().await {
            Err(Error::Database(sqlx::Error::Database(error))) if error.code().as_deref() == Some("42501") => {}
            checked => checked?,
        }
        Ok(database)
    }

    /// Opens the database that the arguments name, else starts a throw-away server.
    pub(crate) async fn open_or_start(arguments: &DatabaseArguments, connections: u32) -> Result<Self, Failure> {
        match url(arguments) {
            Some(url) => Self::connect(url, arguments, connections, None).await,
            None => {
                let postgres = Postgres::start().await?;
                let url = postgres.url().to_owned();
                Self::connect(&url, arguments, connections, Some(postgres)).await
            }
        }
    }

    async fn connect(
        url: &str,
        arguments: &DatabaseArguments,
        connections: u32,
        postgres: Option<Postgres>,
    ) -> Result<Self, Failure> {
        // A pool retries for half a minute. A single connection reports its error at once.
        let options = Client::connect_options(url)?.application_name("uniqueue");
        let connecting = async {
            let connection = options.connect().await;
            let mut connection = connection.map_err(|error| explain(Error::cannot_connect(&options, error)))?;
            sqlx::query("SHOW server_version").execute(&mut connection).await?;
            Ok::<_, Failure>(connection.close().await?)
        };
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        connected.unwrap_or_else(|_| Err(silent(&options)))?;
        let pool = PgPoolOptions::new().max_connections(connections).acquire_timeout(CONNECT_TIMEOUT);
        let pool = pool.after_connect(|connection, _| {
            Box::pin(async move {
                // Servers on some systems do not support the setting. There a query goes on after Ctrl-C.
                let _ = sqlx::query(CHECK_CLIENT_CONNECTION).execute(connection).await;
                Ok(())
            })
        });
        let pool = pool.connect_lazy_with(options);
        let client = Client::builder().schema(arguments.schema().clone()).pool(pool);
        Ok(Self { client, url: url.to_owned(), postgres })
    }

    /// Asks an open database, closes it and prints the answer.
    pub(crate) async fn ask<A: Into<Answer>>(
        self,
        arguments: &DatabaseArguments,
        question: impl AsyncFnOnce(&Client, Form) -> Result<A, Failure>,
    ) -> Result<Verdict, Failure> {
        let answer = question(&self.client, Form::of_one(arguments.json)).await?.into();
        self.close().await?;
        answer.print()
    }

    /// Closes every connection, and stops the server if this command started it.
    pub(crate) async fn close(self) -> Result<(), Failure> {
        // The counts of this process are a small part of the history, so the command does not fail without them.
        let _ = tokio::time::timeout(Duration::from_secs(2), self.client.write_history()).await;
        self.client.pool().close().await;
        match self.postgres {
            Some(postgres) => Ok(postgres.stop().await?),
            None => Ok(()),
        }
    }
}

/// Reads the name of a schema. The empty string means the default, because scripts often unset a variable by setting it to
/// the empty string.
pub(crate) fn schema_name(given: &str) -> Result<SchemaName, Error> {
    if given.is_empty() { Ok(SchemaName::default()) } else { given.parse() }
}

/// The URL of the arguments, if they have one.
pub(crate) fn url(arguments: &DatabaseArguments) -> Option<&str> {
    // Scripts often unset a variable by setting it to the empty string.
    arguments.database_url.as_deref().filter(|url| !url.trim().is_empty())
}

/// The failure of a database that does not answer.
fn silent(options: &PgConnectOptions) -> Failure {
    let problem = format!("it does not answer within {}", format_duration(CONNECT_TIMEOUT));
    Error::cannot_connect(options, sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, problem))).into()
}

/// Adds a hint to the error of a connection that could not be encrypted.
fn explain(error: Error) -> Failure {
    let hint = match cfg!(feature = "tls") {
        true => "check the server's certificate, or the URL's sslmode",
        false => "this command was built without TLS: install it with its default features",
    };
    match error {
        Error::Connect { to, source: sqlx::Error::Tls(error) } => {
            Failure::refused(format!("cannot connect to {to}: cannot encrypt: {error}"), hint)
        }
        error => error.into(),
    }
}

/// Asks the database of the arguments. Fails unless its schema has the version that this uniqueue needs.
pub(crate) async fn ask<A: Into<Answer>>(
    arguments: &DatabaseArguments,
    question: impl AsyncFnOnce(&Client, Form) -> Result<A, Failure>,
) -> Result<Verdict, Failure> {
    Database::open_migrated(arguments).await?.ask(arguments, question).await
}

/// Asks the database of the arguments, or all places of a map at once. A place that does not answer is named on standard
/// error, and the verdict is not fine.
pub(crate) async fn ask_each<F>(
    arguments: &DatabaseArguments,
    question: impl Fn(Client, Form) -> F,
) -> Result<Verdict, Failure>
where
    F: Future<Output = Result<Answer, Failure>> + Send + 'static,
{
    let checked = |client: Client, form| {
        let answer = question(client.clone(), form);
        async move {
            client.check_schema().await?;
            answer.await
        }
    };
    ask_each_unchecked(arguments, checked).await
}

/// The same whatever the version of the schema.
pub(crate) async fn ask_each_unchecked<F>(
    arguments: &DatabaseArguments,
    question: impl Fn(Client, Form) -> F,
) -> Result<Verdict, Failure>
where
    F: Future<Output = Result<Answer, Failure>> + Send + 'static,
{
    let Some(places) = places::all() else {
        let database = Database::open(arguments, 2).await?;
        return database.ask(arguments, async |client, form| question(client.clone(), form).await).await;
    };
    let asked = |client: Client| {
        let place = client.place().cloned();
        question(client, Form { json: arguments.json, place })
    };
    let (answers, verdict) = ask_places(places, asked).await;
    Ok(Answer::of_places(answers).print()?.max(verdict))
}

/// Asks all places at once. A place that does not answer is named on standard error, and the verdict is not fine.
pub(crate) async fn ask_places<T, F>(places: &Places, question: impl Fn(Client) -> F) -> (Vec<(PlaceName, T)>, Verdict)
where
    T: Send + 'static,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let asked = |client: Client| {
        let answer = question(client);
        async move {
            match answer.await {
                // So that the error names a place that is down.
                Err(Failure::Uniqueue(error)) => Err(error),
                answer => Ok(answer),
            }
        }
    };
    let (mut answers, mut verdict) = (Vec::new(), Verdict::Fine);
    for (place, answer) in places.ask(asked).await {
        match answer.map_err(Failure::from).flatten() {
            Ok(answer) => answers.push((place, answer)),
            Err(failure) => {
                output::print_to_stderr(&format!("place {place}: error: {failure}"));
                verdict = Verdict::NotFine;
            }
        }
    }
    (answers, verdict)
}

/// The databases that statistics come from: one, or all places of a map.
pub(crate) enum Source {
    One(Box<Database>),
    All {
        places: Places,
        /// Whether every place has answered each time.
        verdict: Verdict,
        /// The places whose schema was found to fit. A watch asks each of them once.
        fits: Arc<Mutex<BTreeSet<Option<PlaceName>>>>,
    },
}

impl Source {
    pub(crate) async fn open(arguments: &DatabaseArguments, places: Option<Places>) -> Result<Self, Failure> {
        Ok(match places {
            Some(places) => Self::All { places, verdict: Verdict::Fine, fits: Arc::default() },
            None => Self::One(Box::new(Database::open_migrated(arguments).await?)),
        })
    }

    /// The answer of the database, or those of all places in one. A place that does not answer is named on standard error.
    pub(crate) async fn ask<T, F>(
        &mut self,
        ask: impl Fn(Client) -> F,
        merge: impl FnOnce(Vec<T>) -> Option<T>,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let asking = async {
            let (places, verdict, fits) = match self {
                Self::One(database) => return Ok(ask(database.client.clone()).await?),
                Self::All { places, verdict, fits } => (places, verdict, fits),
            };
            let checked = |client: Client| {
                let (asked, fits, place) = (ask(client.clone()), Arc::clone(fits), client.place().cloned());
                async move {
                    let fits = || fits.lock().unwrap_or_else(PoisonError::into_inner);
                    if !fits().contains(&place) {
                        client.check_schema().await?;
                        fits().insert(place);
                    }
                    Ok(asked.await?)
                }
            };
            let (answers, now) = ask_places(places, checked).await;
            *verdict = now.max(*verdict);
            let answers = answers.into_iter().map(|(_, answer)| answer).collect();
            merge(answers).ok_or_else(|| Failure::refused("no place answered", "see `uniqueue places check`"))
        };
        answered(nothing_changed, asking).await
    }

    /// Closes the connections, and prints the answer of a command.
    pub(crate) async fn answer(self, answer: Answer) -> Result<Verdict, Failure> {
        let verdict = match self {
            Self::One(database) => database.close().await.map(|()| Verdict::Fine)?,
            Self::All { verdict, .. } => verdict,
        };
        answer.verdict(verdict).print()
    }
}
