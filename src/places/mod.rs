//! Places: several schemas, in any databases, that work together.
//!
//! A place is a whole queue. Nothing in its SQL knows of other places, and no statement crosses them. So this module only
//! chooses a [`Client`] for a job, asks all clients at once, and says which place an error belongs to.
//!
//! Invariants:
//! - A job declares one way to its place. A place that is down gets its jobs later, and no other place gets them meanwhile.
//! - The pool of a place's client asks each new connection where it is, and gives out none of another place. So do runners and
//!   maintainers with their own connections.

mod address;
mod assignment;
mod insert;
mod insert_many;
mod map;
mod processes;
mod runner;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_util::task::AbortOnDropHandle;

pub use self::address::PlaceAddress;
pub use self::insert_many::PlaceAnswer;
pub use self::map::PlaceMap;
pub use self::runner::{PlaceState, PlacesHandle, PlacesRunner};

use crate::client::{Client, ClientBuilder};
use crate::error::{Error, Result};
use crate::store::PlaceIdentity;
use crate::words::ident::{JobId, PlaceName};
use crate::words::job::{JobRow, NewJob};
#[cfg(feature = "periodic")]
use crate::words::periodic::PeriodicJob;
#[cfg(feature = "periodic")]
use crate::words::place_by::PlaceBy;

/// The clients of all places of a map. Cheap to clone. No connection is opened before one is asked for, so that a place
/// that is down does not keep the others from work.
///
/// ```no_run
/// # use serde::{Deserialize, Serialize};
/// # use uniqueue::{Job, PlaceMap, Places};
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "invoice.send", unique(args("number")), place = "unique_key")]
/// struct SendInvoice {
///     number: u64,
/// }
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "report.print")]
/// struct PrintReport {
///     number: u64,
/// }
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let places = Places::new(PlaceMap::from_file("places.json")?);
/// // To the place of its unique key.
/// places.insert(SendInvoice { number: 7 }).await?;
///
/// // Into the database of a tenant, in the transaction of the caller.
/// let acme = places.at("acme")?;
/// let mut tx = acme.pool().begin().await?;
/// acme.insert(PrintReport { number: 8 }).tx(&mut tx).await?;
/// tx.commit().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Places {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    map: PlaceMap,
    /// In the order of the map.
    clients: Vec<Client>,
    /// The place that answered last, which is asked first for what every place knows.
    answered: AtomicUsize,
}

impl Places {
    /// The places of a map, with the default options of clients.
    #[must_use]
    pub fn new(map: PlaceMap) -> Self {
        Self::with(map, Client::builder())
    }

    /// The places of a map, with clients of these options, whose schemas the map names.
    #[must_use]
    pub fn with(map: PlaceMap, options: ClientBuilder) -> Self {
        let client = |(index, place): (usize, &PlaceAddress)| {
            let builder = options.clone().schema(place.schema_name().clone());
            builder.of_place(place.connect_options().clone(), map.identity(index))
        };
        let clients = map.places().enumerate().map(client).collect();
        Self { inner: Arc::new(Inner { map, clients, answered: AtomicUsize::new(0) }) }
    }

    /// The map.
    #[must_use]
    pub fn map(&self) -> &PlaceMap {
        &self.inner.map
    }

    /// The client of the place with this name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownPlace`].
    pub fn at(&self, name: &str) -> Result<&Client> {
        self.map().index_named(name).map(|index| &self.inner.clients[index])
    }

    /// The client of the place to which a value belongs, among those that share hashed values
    /// ([`PlaceMap::place_of`]).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMap`] where the map has no hashed places.
    pub fn of(&self, value: &str) -> Result<&Client> {
        self.index_of(value).map(|index| &self.inner.clients[index])
    }

    /// The places with their clients, in the order of the map.
    pub fn iter(&self) -> impl Iterator<Item = (&PlaceName, &Client)> {
        self.map().places().map(PlaceAddress::name).zip(&self.inner.clients)
    }

    /// The client of the place to which a job declares to belong ([`PlaceBy`](crate::PlaceBy)), for an insert in a
    /// transaction of the caller's in this place. A job made by name is not filled in from its registered kind: it must
    /// declare its place itself.
    ///
    /// # Errors
    ///
    /// As for [`Places::insert`].
    pub fn of_job(&self, job: &mut NewJob) -> Result<&Client> {
        self.index_of_job(job).map(|index| &self.inner.clients[index])
    }

    /// Asks every place at once. Answers in the order of the map. A place that does not answer is
    /// [`Error::PlaceDown`].
    ///
    /// ```no_run
    /// # async fn run(places: uniqueue::Places) {
    /// for (place, at) in places.ask(|client| async move { client.database_time().await }).await {
    ///     match at {
    ///         Ok(at) => println!("{place}: {at}"),
    ///         Err(error) => println!("{error}"),
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn ask<T, F>(&self, mut ask: impl FnMut(Client) -> F) -> Vec<(PlaceName, Result<T>)>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let clients = self.inner.clients.iter().enumerate();
        self.answers(clients.map(|(index, client)| (index, ask(client.clone()))).collect::<Vec<_>>()).await
    }

    /// A job, asked of every place. `None`: no place has it.
    ///
    /// # Errors
    ///
    /// [`Error::PlaceDown`] or another error of a place, where no other place has the job.
    pub async fn job(&self, id: impl Into<JobId>) -> Result<Option<(PlaceName, JobRow)>> {
        let id = id.into();
        let mut failure = None;
        for (place, answer) in self.ask(move |client| async move { client.job(id).await }).await {
            match answer {
                Ok(Some(job)) => return Ok(Some((place, job))),
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    /// Brings the schema of every place up to date, as [`Client::migrate`] does. Answers in the order of the map, with the
    /// migrations that were applied. A place without a name is migrated as well.
    #[cfg(feature = "migrate")]
    pub async fn migrate(&self) -> Vec<(PlaceName, Result<Vec<String>>)> {
        let migrate = |client: Client| async move { client.migrate().await };
        let indexes = 0..self.inner.clients.len();
        self.answers(indexes.map(|index| (index, migrate(self.unguarded(index)))).collect()).await
    }

    /// Writes to each place its name and the hashed list. A place that has them is left alone.
    ///
    /// # Errors
    ///
    /// One for each place: [`Error::MapMismatch`] for a schema that is another place already, or has another list;
    /// [`Error::PlaceCopy`] for a copy of the place; [`Error::PlaceMoved`]; [`Error::NotMigrated`].
    pub async fn init(&self) -> Vec<(PlaceName, Result<()>)> {
        let indexes = 0..self.inner.clients.len();
        let naming = indexes.map(|index| (index, name(self.unguarded(index), self.map().identity(index), false)));
        self.answers(naming.collect()).await
    }

    /// Says that a place is in its database now: after a restore, a copy or `pg_upgrade`, which clients refuse as a
    /// [copy](Error::PlaceCopy). No other server may have the place any more. A promoted standby needs no such word.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownPlace`]; as [`init`](Self::init), but for a copy.
    pub async fn adopt(&self, place: &str) -> Result<()> {
        let index = self.map().index_named(place)?;
        self.settle(index, name(self.unguarded(index), self.map().identity(index), true).await)
    }

    /// Checks that each place answers, is the place of the map, and has the schema that this library needs.
    ///
    /// # Errors
    ///
    /// One for each place: [`Error::PlaceDown`], [`Error::MapMismatch`], [`Error::PlaceCopy`], [`Error::PlaceMoved`],
    /// [`Error::NotMigrated`], [`Error::NewerSchema`], [`Error::IncompatibleSchema`].
    pub async fn check(&self) -> Vec<(PlaceName, Result<()>)> {
        self.ask(|client| async move { client.check_schema().await }).await
    }

    /// A client of a place whose connections may be anywhere: the schema may not say yet which place it is.
    fn unguarded(&self, index: usize) -> Client {
        let place = &self.map().places[index];
        let pool = sqlx::postgres::PgPoolOptions::new()
            .max_connections(2)
            .acquire_timeout(self.inner.clients[index].pool().options().get_acquire_timeout())
            .connect_lazy_with(place.connect_options().clone());
        Client::builder().schema(place.schema_name().clone()).pool(pool)
    }

    /// Waits for the answers of places, each with its index. Answers in the same order.
    async fn answers<T, F>(&self, asked: Vec<(usize, F)>) -> Vec<(PlaceName, Result<T>)>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let asking: Vec<_> =
            asked.into_iter().map(|(index, asking)| (index, AbortOnDropHandle::new(tokio::spawn(asking)))).collect();
        let mut answers = Vec::with_capacity(asking.len());
        for (index, asking) in asking {
            let answer = asking.await.unwrap_or_else(|error| match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(sqlx::Error::WorkerCrashed.into()),
            });
            answers.push((self.name(index).clone(), self.settle(index, answer)));
        }
        answers
    }

    /// Passes on the answer of a place. An error of a place that does not answer names it.
    fn settle<T>(&self, index: usize, answer: Result<T>) -> Result<T> {
        match answer {
            Err(error) if error.is_unreachable() => {
                Err(Error::PlaceDown { place: self.name(index).clone(), source: Box::new(error) })
            }
            Ok(value) => {
                self.inner.answered.store(index, Ordering::Relaxed);
                Ok(value)
            }
            refused => refused,
        }
    }

    fn name(&self, index: usize) -> &PlaceName {
        self.map().name(index)
    }

    fn index_of(&self, value: &str) -> Result<usize> {
        self.map().index_of(value).ok_or_else(|| Error::InvalidMap {
            problem: "no places share hashed values; hint: name them in the list \"hashed\", or use places.at(…)"
                .to_owned(),
        })
    }

    fn index_of_job(&self, job: &mut NewJob) -> Result<usize> {
        // The defaults of all clients are the same.
        let value = self.inner.clients[0].place_value(job)?;
        self.index_of(&value)
    }

    /// The place that defines a periodic job.
    #[cfg(feature = "periodic")]
    fn index_of_periodic(&self, periodic: &PeriodicJob) -> usize {
        let mut job = periodic.job.clone();
        // The ids of its jobs are made from its name.
        let by_job = if job.options.place == Some(PlaceBy::Id) { None } else { self.index_of_job(&mut job).ok() };
        by_job.or_else(|| self.map().index_of(&periodic.name)).unwrap_or(0)
    }
}

/// Names the schema of a client. `adopts`: also if it is a copy.
async fn name(client: Client, wanted: PlaceIdentity, adopts: bool) -> Result<()> {
    client.check_schema().await?;
    let mut connection = client.connection().await?;
    let named = client.store(&mut connection).name_place(&wanted, adopts).await;
    // The database refuses another name or list with a text of its own.
    if named.is_err()
        && let Ok(found) = client.store(&mut connection).place_identity().await
    {
        wanted.check(found)?;
    }
    named
}
