//! A runner for each place, in one process.
//!
//! States of a place: *standby* (other processes work it), *down* (its runner cannot start, and is tried again), and
//! *working*. Each place has a task of its own, so what happens in one, a failure or a hang, happens to no other. A runner
//! that works deals with its database's outages itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::Places;
use super::hubs::hubs;
use super::processes::{FIRST_LOOK, MARK, Processes};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::ident::PlaceName;
use crate::notify::ListenHub;
use crate::runner::{Budget, GrowingWait, Runner, RunnerHandle, Share};

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
    tasks: TaskTracker,
    /// The first error of the runners that were stopped with the process.
    failure: Arc<Mutex<Option<Error>>>,
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
    /// - A periodic job is defined in one place: the one of its name as a hashed value, or the first of a map without hashed
    ///   places. Order, limits and rates hold in each place for itself.
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
    /// [`Error::InvalidRunner`], as for [`Runner::start`]: nothing is started. The problem of one place is in
    /// [`PlacesHandle::states`].
    pub async fn start(self) -> Result<PlacesHandle> {
        let Self { places, build, name, slots, most_runners } = self;
        let sample = build(places.inner.clients[0].clone());
        sample.check()?;
        let slots = slots.unwrap_or_else(|| sample.slots());
        let count = places.inner.clients.len();
        let name = name.unwrap_or_else(|| format!("uniqueue {}", std::process::id()));
        // Ids of one moment begin alike.
        let own = Uuid::now_v7().simple().to_string();
        let name = format!("{name}{MARK}{}", &own[20..]);
        // Else each new process would begin in every place, before it knows of others.
        let mut processes = Processes::new(places.clone(), name.clone(), most_runners);
        let first = processes.assignment(FIRST_LOOK).await;
        let stopping = CancellationToken::new();
        let tasks = TaskTracker::new();
        let handle = PlacesHandle {
            states: Arc::new(Mutex::new(
                places.iter().map(|(place, _)| (place.clone(), PlaceState::Standby)).collect(),
            )),
            stopping: stopping.clone(),
            tasks: tasks.clone(),
            failure: Arc::default(),
        };
        let hubs = if sample.listens() { hubs(&places) } else { vec![None; count] };
        let mut started = BTreeSet::new();
        for hub in hubs.iter().flatten() {
            if started.insert(Arc::as_ptr(hub)) {
                tasks.spawn(Arc::clone(hub).listen(stopping.clone()));
            }
        }
        let (assign, assignment) = watch::channel(first);
        tasks.spawn(processes.look(assign, stopping.clone()));
        for ((index, hub), share) in hubs.into_iter().enumerate().zip(Budget::shares(slots, count)) {
            let place = Place {
                places: places.clone(),
                index,
                build: Arc::clone(&build),
                name: name.clone(),
                share,
                hub,
                states: Arc::clone(&handle.states),
                failure: Arc::clone(&handle.failure),
            };
            tasks.spawn(place.work(assignment.clone(), stopping.clone()));
        }
        tasks.close();
        Ok(handle)
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

    /// Stops the runners in order, all at once, each as [`RunnerHandle::stop`] does.
    ///
    /// # Errors
    ///
    /// [`Error::PlaceDown`] or another error of the first place whose runner could not be taken out of its database. It
    /// counts as alive there until its lease runs out.
    pub async fn stop(self) -> Result<()> {
        self.stopping.cancel();
        self.tasks.wait().await;
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

/// Without a stop the runners stop in order by themselves.
impl Drop for PlacesHandle {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
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
    failure: Arc<Mutex<Option<Error>>>,
}

impl Place {
    /// Works the place, as far as it is assigned, until the process stops.
    async fn work(self, mut assignment: watch::Receiver<Vec<bool>>, stopping: CancellationToken) {
        let mut wait = GrowingWait::new();
        while !stopping.is_cancelled() {
            if !assignment.borrow_and_update()[self.index] {
                self.share.close();
                self.tell(PlaceState::Standby);
                tokio::select! {
                    () = stopping.cancelled() => return,
                    _ = assignment.changed() => continue,
                }
            }
            let started = tokio::select! {
                () = stopping.cancelled() => return,
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
                    self.stop(handle, &stopping).await;
                    self.share.close();
                }
                Err(error) => {
                    self.share.close();
                    tracing::warn!(place = %self.place(), %error, "the runner of a place cannot start, trying again");
                    self.tell(PlaceState::Down(error.to_string()));
                    tokio::select! {
                        () = stopping.cancelled() => return,
                        () = tokio::time::sleep(wait.grow()) => {}
                    }
                }
            }
        }
    }

    fn runner(&self) -> Runner {
        let runner = (self.build)(self.places.inner.clients[self.index].clone());
        let runner = runner.name(&self.name).sharing(self.share.clone(), self.hub.clone());
        #[cfg(feature = "periodic")]
        let runner = runner.retain_periodic(|name| self.places.map().index_of(name).unwrap_or(0) == self.index);
        runner
    }

    async fn stop(&self, handle: RunnerHandle, stopping: &CancellationToken) {
        if let Err(error) = self.places.settle(self.index, handle.stop().await) {
            tracing::warn!(place = %self.place(), %error, "the runner of a place could not be taken out");
            // A place that goes to other processes is no failure of a later stop.
            if stopping.is_cancelled() {
                self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
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
