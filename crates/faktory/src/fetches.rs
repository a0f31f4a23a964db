//! Fetches of all connections. Fetches of one worker from the same queues are one call, so that many idle connections cost the
//! database little.
//!
//! ```text
//! asked ─▶ waiting ─▶ in flight ─▶ answered
//!             ▲           │
//!             └─ no job ──┘   asked again when a queue has jobs, and once a second
//! ```
//!
//! - A connection that gave up is left out of the next call. A job that was fetched for it goes to another one that waits, or
//!   back to its place in the queue.
//! - Wake-ups can be lost. Polling alone finds every job within a second.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uniqueue::Client;
use uniqueue_remote::{FetchedJob, JobResult, Remote, WakeUp, WakeUps};

use crate::payload::{OWN, RESERVE};
use crate::reply::Refusal;
use crate::sent::{Fetched, RESERVE_FOR};

/// How long the FETCH of a client waits for a job. Then the reply says that there is none.
pub(crate) const FETCH_WAIT: Duration = Duration::from_secs(2);

/// The most jobs of one call, and the most calls at once.
const MOST: usize = 100;
const AT_ONCE: usize = 4;

/// How long a connection that found nothing waits for the next call without a wake-up.
const POLL: Duration = Duration::from_secs(1);

/// Which jobs a connection asks for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Wanted {
    /// The name of the worker.
    pub(crate) worker: String,
    /// In the order of their turns.
    pub(crate) queues: Vec<String>,
}

type Answer = oneshot::Sender<Result<Fetched, Refusal>>;

/// Asks for jobs.
#[derive(Clone, Debug)]
pub(crate) struct Fetches(mpsc::Sender<(Wanted, Answer)>);

impl Fetches {
    /// Starts the task that fetches. It ends when the token is cancelled.
    pub(crate) fn start(client: &Client, services: &TaskTracker, stop: CancellationToken) -> Self {
        let (sender, requests) = mpsc::channel(1_000);
        services.spawn(run(client.clone(), requests, stop));
        Self(sender)
    }

    /// Asks for one job. The answer comes when there is one.
    pub(crate) async fn ask(&self, wanted: Wanted) -> oneshot::Receiver<Result<Fetched, Refusal>> {
        let (answer, receiver) = oneshot::channel();
        // Without a receiver the answer is dropped, which the connection sees.
        let _ = self.0.send((wanted, answer)).await;
        receiver
    }
}

/// The connections that ask for the same.
struct Waiting {
    answers: VecDeque<Answer>,
    is_in_flight: bool,
    /// Whether there may be jobs since the last call began.
    is_due: bool,
    asked_at: Instant,
}

/// Fetches until all connections are gone, or the token is cancelled.
async fn run(client: Client, mut requests: mpsc::Receiver<(Wanted, Answer)>, stop: CancellationToken) {
    let client = Arc::new(client);
    let (mut wake_ups, mut calls) = (WakeUps::new(&client), JoinSet::new());
    let mut all: HashMap<Wanted, Waiting> = HashMap::new();
    let mut tick = interval(POLL / 4);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            asked = requests.recv() => {
                let Some((wanted, answer)) = asked else { break };
                let waiting = all.entry(wanted).or_insert_with(|| Waiting {
                    answers: VecDeque::new(), is_in_flight: false, is_due: true, asked_at: Instant::now(),
                });
                waiting.answers.push_back(answer);
                waiting.is_due = true;
            }
            Some(called) = calls.join_next(), if !calls.is_empty() => {
                let Ok((wanted, jobs)) = called else { continue };
                give(&client, &mut all, wanted, jobs).await;
            }
            woken = wake_ups.next() => for (wanted, waiting) in &mut all {
                waiting.is_due |= match &woken {
                    WakeUp::Jobs { queue } => wanted.queues.contains(queue),
                    _ => true,
                };
            },
            _ = tick.tick() => all.values_mut().for_each(|waiting| waiting.is_due |= waiting.asked_at.elapsed() >= POLL),
            () = stop.cancelled() => break,
        }
        start(&client, &mut all, &mut calls);
    }
    // All waiting fetches have ended. A call under way can have entered a worker again after the worker left.
    let workers: HashSet<_> = all.drain().map(|(wanted, _)| wanted.worker).collect();
    while let Some(called) = calls.join_next().await {
        if let Ok((wanted, jobs)) = called {
            give(&client, &mut all, wanted, jobs).await;
        }
    }
    for worker in workers {
        if let Err(error) = Remote::new(&client).stop_worker(worker).await {
            tracing::debug!(%error, "cannot remove a worker");
        }
    }
}

type Called = (Wanted, Result<Vec<Fetched>, Refusal>);

/// Begins the calls that are due.
fn start(client: &Arc<Client>, all: &mut HashMap<Wanted, Waiting>, calls: &mut JoinSet<Called>) {
    all.retain(|_, waiting| {
        waiting.answers.retain(|answer| !answer.is_closed());
        waiting.is_in_flight || !waiting.answers.is_empty()
    });
    // The fetch that has waited longest comes first, so that a busy worker does not delay another worker.
    let mut due: Vec<_> = all.iter_mut().filter(|(_, waiting)| waiting.is_due && !waiting.is_in_flight).collect();
    due.sort_by_key(|(_, waiting)| waiting.asked_at);
    for (wanted, waiting) in due.into_iter().take(AT_ONCE.saturating_sub(calls.len())) {
        (waiting.is_in_flight, waiting.is_due, waiting.asked_at) = (true, false, Instant::now());
        let (client, wanted, count) = (Arc::clone(client), wanted.clone(), waiting.answers.len().min(MOST));
        calls.spawn(async move {
            let jobs = fetch(&client, &wanted, count).await;
            (wanted, jobs)
        });
    }
}

/// Starts jobs, each reserved for as long as it says.
async fn fetch(client: &Client, wanted: &Wanted, count: usize) -> Result<Vec<Fetched>, Refusal> {
    let Wanted { worker, queues } = wanted;
    let fetch = Remote::new(client).fetch_jobs(queues.iter().cloned(), worker.as_str());
    let count = u32::try_from(count).unwrap_or(1);
    let fetch = fetch.count(count).reserve(Duration::from_secs(RESERVE_FOR)).reserve_each(own_reservation).listens();
    Ok(fetch.await?.into_iter().map(Fetched::from).collect())
}

/// The reservation that a job asks for itself. A value that was changed by hand counts within the limits.
fn own_reservation(job: &FetchedJob) -> Option<Duration> {
    let seconds = job.meta.get(OWN)?.get("reserve_for")?.as_u64()?;
    Some(Duration::from_secs(seconds.clamp(*RESERVE.start(), *RESERVE.end())))
}

/// Gives each job to a connection that waits for it. Jobs without a connection go back to their queues.
async fn give(
    client: &Client,
    all: &mut HashMap<Wanted, Waiting>,
    wanted: Wanted,
    jobs: Result<Vec<Fetched>, Refusal>,
) {
    let mut waiting = all.get_mut(&wanted);
    if let Some(waiting) = &mut waiting {
        waiting.is_in_flight = false;
    }
    let mut answers = waiting.map(|waiting| &mut waiting.answers);
    let mut next = || answers.as_mut().and_then(|answers| answers.pop_front());
    match jobs {
        Err(refusal) => {
            while let Some(answer) = next() {
                let _ = answer.send(Err(refusal.clone()));
            }
        }
        Ok(jobs) => {
            let mut left = VecDeque::from(jobs);
            while let Some(job) = left.pop_front() {
                let Some(answer) = next() else {
                    left.push_front(job);
                    break;
                };
                // A connection that has left meanwhile takes none.
                if let Err(Ok(unsent)) = answer.send(Ok(job)) {
                    left.push_front(unsent);
                }
            }
            give_back(client, left.into_iter().map(|job| JobResult::give_back(job.job.run)).collect()).await;
        }
    }
}

/// Gives fetched jobs back to their queues if no connection waits for them.
pub(crate) async fn give_back(client: &Client, runs: Vec<JobResult>) {
    if runs.is_empty() {
        return;
    }
    if let Err(error) = Remote::new(client).finish_jobs(runs).await {
        tracing::warn!(%error, "cannot give jobs back: they come back when their reservation ends");
    }
}
