//! A runner for each place, in one process.
//!
//! States of a place: *standby* (other processes work it), *down* (its runner cannot start, and is tried again), and
//! *working*. Each place has a task of its own, so what happens in one, a failure or a hang, happens to no other. A runner
//! that works deals with its database's outages itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Places;
use super::processes::{FIRST_LOOK, MARK, Processes};
use crate::client::Client;
use crate::client::connections::growing_wait::GrowingWait;
use crate::error::Result;
use crate::notify::ListenHub;
use crate::runner::{Budget, Runner, Share};
use crate::words::ident::PlaceName;

type Build = dyn Fn(Client) -> Runner + Send + Sync;

/// Builds a runner for all places of a map. Made by [`Places::runner`].
#[must_use = "a runner does nothing until it is started"]
pub struct PlacesRunner {
    places: Places,
    build: Arc<Build>,
    name: Option<String>,
    slots: Option<usize>,
    most_runners: usize,
}

/// The running runners of all places. [`PlacesHandle::stop`] ends them in order.
#[must_use = "keep it, to stop the runners with"]
pub struct PlacesHandle {
    states: Arc<Mutex<BTreeMap<PlaceName, PlaceState>>>,
    stopping: CancellationToken,
    /// Each ends with the error of a runner that was stopped with the process.
    tasks: JoinSet<Result<()>>,
}

/// The state of a process in a place.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum PlaceState {
    /// Its runner starts, or other processes work the place.
    Standby,
    /// Its runner works. The id is that of the runner when it started.
    Working(Uuid),
    /// Its runner cannot start, for this reason, and is tried again at least every 5 s.
    Down(String),
}

impl Places {
    /// A runner for each place, all in this process. `build` makes one of them from the client of a place: the queues, the
    /// workers and the options, the same in each place. It is called again when a runner has to be started again.
    ///
    /// - All share one budget of [slots](PlacesRunner::slots). Each place may always run one job. Further slots are borrowed
    ///   for a job, and given back at its end. The concurrency of a queue is its limit in each place.
    /// - A place that does not answer, or whose schema is newer, stops only its own jobs, and comes back by itself.
    /// - A periodic job is defined in one place: the one to which its jobs belong, where their kind declares a way other than
    ///   the id; else the one of its name as a hashed value, or the first of a map without hashed places. Order, limits and
    ///   rates hold in each place for itself.
    ///
    /// ```no_run
    /// # use serde::{Deserialize, Serialize};
    /// # use uniqueue::{Job, PlaceMap, Places, Runner, RunningJob, shutdown_signal};
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "email.send", queue = "emails")]
    /// # struct SendEmail { to: String }
    /// async fn send_email(job: RunningJob<SendEmail>) {
    ///     println!("to {}", job.args.to);
    /// }
    ///
    /// # async fn run() -> uniqueue::Result<()> {
    /// let places = Places::new(PlaceMap::from_file("places.json")?);
    /// places
    ///     .runner(|client| Runner::new(client).queue("emails", 20).worker(send_email))
    ///     .slots(40)
    ///     .run_until(shutdown_signal())
    ///     .await
    /// # }
    /// ```
    pub fn runner(&self, build: impl Fn(Client) -> Runner + Send + Sync + 'static) -> PlacesRunner {
        PlacesRunner { places: self.clone(), build: Arc::new(build), name: None, slots: None, most_runners: 300 }
    }
}

impl PlacesRunner {
    /// How many jobs run at once in this process, over all places. Default: the sum of the concurrencies of one runner's
    /// queues. Each place may run one job however few there are.
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = Some(slots);
        self
    }

    /// The name of the runners in the tables `runner`, before a part that tells this process from others. Default:
    /// `uniqueue` and the process id.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How many runners all live processes start together. With more places × processes than this, each place is worked by
    /// some of the processes, at least two, chosen by rendezvous hashing. Default: 300.
    pub fn most_runners(mut self, most_runners: usize) -> Self {
        self.most_runners = most_runners;
        self
    }

    /// Starts the runners, after a look which other processes live. A place that does not answer does not keep the others from
    /// work for more than 2 s.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRunner`](crate::Error::InvalidRunner), as for [`Runner::start`]: nothing is started. The problem of
    /// one place is in [`PlacesHandle::states`].
    pub async fn start(self) -> Result<PlacesHandle> {
        let Self { places, build, name, slots, most_runners } = self;
        let sample = build(places.inner.clients[0].clone());
        sample.check()?;
        let slots = slots.unwrap_or_else(|| sample.slots());
        let name = name.unwrap_or_else(|| format!("uniqueue {}", std::process::id()));
        // Ids of one moment begin alike.
        let own = Uuid::now_v7().simple().to_string();
        let name = format!("{name}{MARK}{}", &own[20..]);
        // Else each new process would begin in every place, before it knows of others.
        let mut processes = Processes::new(places.clone(), name.clone(), most_runners);
        let first = processes.assignment(FIRST_LOOK).await;
        let (assign, assignment) = watch::channel(first);
        let states = places.iter().map(|(place, _)| (place.clone(), PlaceState::Standby)).collect();
        let states = Arc::new(Mutex::new(states));
        let (stopping, mut tasks) = (CancellationToken::new(), JoinSet::new());
        tasks.spawn(without_error(processes.look(assign, stopping.clone())));
        let count = places.inner.clients.len();
        let hubs = if sample.listens() { listen(&places, &mut tasks, &stopping) } else { vec![None; count] };
        for ((index, hub), share) in hubs.into_iter().enumerate().zip(Budget::shares(slots, count)) {
            let (places, build, name, states) = (places.clone(), Arc::clone(&build), name.clone(), Arc::clone(&states));
            let place = Place { places, index, build, name, share, hub, states };
            tasks.spawn(place.work(assignment.clone(), stopping.clone()));
        }
        Ok(PlacesHandle { states, stopping, tasks })
    }

    /// Starts the runners, and stops them in order when `shutdown` resolves, such as
    /// [`shutdown_signal`](crate::shutdown_signal).
    ///
    /// # Errors
    ///
    /// As for [`PlacesRunner::start`] and [`PlacesHandle::stop`].
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let handle = self.start().await?;
        shutdown.await;
        handle.stop().await
    }
}

impl PlacesHandle {
    /// The state of the process in each place, by name.
    #[must_use]
    pub fn states(&self) -> BTreeMap<PlaceName, PlaceState> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops the runners in order, all at once, each as [`RunnerHandle::stop`](crate::RunnerHandle::stop) does.
    ///
    /// # Errors
    ///
    /// [`Error::PlaceDown`](crate::Error::PlaceDown) or another error of the first place whose runner could not be taken out of
    /// its database. It counts as alive there until its lease runs out.
    pub async fn stop(mut self) -> Result<()> {
        self.stopping.cancel();
        let mut result = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            result = result.and(ended.unwrap_or(Ok(())));
        }
        result
    }
}

/// Without a stop the runners stop in order by themselves.
impl Drop for PlacesHandle {
    fn drop(&mut self) {
        self.stopping.cancel();
        self.tasks.detach_all();
    }
}

/// Lets one connection listen for all places of a database and user, where there are several. Answers with the hub of each place.
fn listen(
    places: &Places,
    tasks: &mut JoinSet<Result<()>>,
    stopping: &CancellationToken,
) -> Vec<Option<Arc<ListenHub>>> {
    let mut databases = BTreeMap::<_, Vec<usize>>::new();
    for (index, place) in places.map().places().enumerate() {
        databases.entry((place.database(), place.connect_options().get_username())).or_default().push(index);
    }
    let clients = &places.inner.clients;
    let mut hubs = vec![None; clients.len()];
    for indexes in databases.into_values().filter(|indexes| indexes.len() > 1) {
        let schemas = indexes.iter().map(|index| clients[*index].schema().clone()).collect();
        let hub = Arc::new(ListenHub::new(clients[indexes[0]].own_connections(), schemas));
        tasks.spawn(without_error(Arc::clone(&hub).listen(stopping.clone())));
        indexes.into_iter().for_each(|index| hubs[index] = Some(Arc::clone(&hub)));
    }
    hubs
}

async fn without_error(task: impl Future<Output = ()>) -> Result<()> {
    task.await;
    Ok(())
}

/// One place of a process.
struct Place {
    places: Places,
    index: usize,
    build: Arc<Build>,
    name: String,
    share: Share,
    hub: Option<Arc<ListenHub>>,
    states: Arc<Mutex<BTreeMap<PlaceName, PlaceState>>>,
}

impl Place {
    /// Works the place, as far as it is assigned, until the process stops.
    async fn work(self, mut assignment: watch::Receiver<Vec<bool>>, stopping: CancellationToken) -> Result<()> {
        let mut wait = GrowingWait::new();
        while !stopping.is_cancelled() {
            if !assignment.borrow_and_update()[self.index] {
                self.share.close();
                self.tell(PlaceState::Standby);
                tokio::select! {
                    () = stopping.cancelled() => break,
                    _ = assignment.changed() => continue,
                }
            }
            let started = tokio::select! {
                () = stopping.cancelled() => break,
                started = self.runner().start() => started,
            };
            match self.places.settle(self.index, started) {
                Ok(handle) => {
                    wait.reset();
                    self.share.open();
                    self.tell(PlaceState::Working(handle.id()));
                    tokio::select! {
                        () = stopping.cancelled() => {}
                        () = taken_away(&mut assignment, self.index) => {}
                    }
                    let stopped = self.places.settle(self.index, handle.stop().await);
                    self.share.close();
                    if let Err(error) = stopped {
                        tracing::warn!(place = %self.place(), %error, "the runner of a place could not be taken out");
                        // A place that goes to other processes is no failure of a later stop.
                        if stopping.is_cancelled() {
                            return Err(error);
                        }
                    }
                }
                Err(error) => {
                    self.share.close();
                    tracing::warn!(place = %self.place(), %error, "the runner of a place cannot start, trying again");
                    self.tell(PlaceState::Down(error.to_string()));
                    tokio::select! {
                        () = stopping.cancelled() => break,
                        () = tokio::time::sleep(wait.grow()) => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn runner(&self) -> Runner {
        let runner = (self.build)(self.places.inner.clients[self.index].clone());
        let runner = runner.name(&self.name).sharing(self.share.clone(), self.hub.clone());
        #[cfg(feature = "periodic")]
        let runner = runner.retain_periodic(|periodic| self.places.index_of_periodic(periodic) == self.index);
        runner
    }

    fn tell(&self, state: PlaceState) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).insert(self.place().clone(), state);
    }

    fn place(&self) -> &PlaceName {
        self.places.name(self.index)
    }
}

/// Resolves when the place is assigned to other processes.
async fn taken_away(assignment: &mut watch::Receiver<Vec<bool>>, index: usize) {
    if assignment.wait_for(|assigned| !assigned[index]).await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl fmt::Debug for PlacesRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlacesRunner").field("places", &self.places).field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl fmt::Debug for PlacesHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlacesHandle").field("states", &self.states()).finish_non_exhaustive()
    }
}
