//! Results of all connections. The results that arrive during a call are sent in the next call.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::sleep;
use uniqueue::Client;
use uniqueue_remote::{JobResult, Remote, Reported};

use crate::reply::Refusal;

/// The most results of one call, and the most calls at once.
const MOST: usize = 500;
pub(crate) const AT_ONCE: usize = 2;

/// How often a call is tried where the database says that another try may succeed, and the wait before it.
const TRIES: u32 = 4;
const WAIT: Duration = Duration::from_millis(50);

/// The longest wait before another try of results whose jobs are locked.
const LONGEST_WAIT: Duration = Duration::from_millis(400);

type Answer = oneshot::Sender<Result<Reported, Refusal>>;

/// Sends results.
#[derive(Clone, Debug)]
pub(crate) struct Results(mpsc::Sender<(JobResult, Answer)>);

/// The results that wait for the next call. The tasks of [`run`] share them.
pub(crate) type Queue = Arc<Mutex<mpsc::Receiver<(JobResult, Answer)>>>;

/// The results of jobs that another transaction has locked.
pub(crate) type Locked = mpsc::UnboundedReceiver<(JobResult, Answer)>;

impl Results {
    pub(crate) fn new() -> (Self, Queue) {
        let (sender, receiver) = mpsc::channel(2 * MOST);
        (Self(sender), Arc::new(Mutex::new(receiver)))
    }

    /// Ends a run. Answers when the result is stored.
    pub(crate) async fn finish(&self, result: JobResult) -> Result<Reported, Refusal> {
        let stopped = || Refusal::new("The server is stopping");
        let (answer, receiver) = oneshot::channel();
        self.0.send((result, answer)).await.map_err(|_| stopped())?;
        receiver.await.map_err(|_| stopped())?
    }
}

/// Stores results until all senders are gone.
pub(crate) async fn run(client: Client, queue: Queue, locked: mpsc::UnboundedSender<(JobResult, Answer)>) {
    let mut batch = Vec::new();
    loop {
        let mut receiver = queue.lock().await;
        if receiver.recv_many(&mut batch, MOST).await == 0 {
            return;
        }
        drop(receiver);
        for one in store_all(&client, std::mem::take(&mut batch)).await {
            // The task of the locked ones lives for as long as this one.
            let _ = locked.send(one);
        }
    }
}

/// Stores the results of locked jobs, which so hold up their own connections only: all in one call, again after a wait, which
/// grows while none of them counts.
pub(crate) async fn run_locked(client: Client, mut locked: Locked) {
    let (mut batch, mut wait) = (Vec::new(), WAIT);
    while !batch.is_empty() || locked.recv_many(&mut batch, MOST).await > 0 {
        sleep(wait).await;
        while let Ok(one) = locked.try_recv() {
            batch.push(one);
        }
        let given = batch.len();
        batch = store_all(&client, batch).await;
        wait = if batch.len() < given { WAIT } else { LONGEST_WAIT.min(wait * 2) };
        batch.retain(|(_, answer)| !answer.is_closed());
    }
}

/// Stores results and answers them. Returns those whose jobs are locked.
async fn store_all(client: &Client, batch: Vec<(JobResult, Answer)>) -> Vec<(JobResult, Answer)> {
    let (results, answers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    let given = results.iter().cloned().zip(answers);
    let mut locked = Vec::new();
    match store(client, &results).await {
        Ok(finished) => {
            for ((result, answer), finished) in given.zip(finished) {
                if finished.locked {
                    locked.push((result, answer));
                } else {
                    let _ = answer.send(Ok(finished));
                }
            }
        }
        Err(refusal) if results.len() == 1 => given.for_each(|(_, answer)| {
            let _ = answer.send(Err(refusal.clone()));
        }),
        // An invalid result must not fail the other results of its call.
        Err(_) => {
            for one in given {
                locked.extend(Box::pin(store_all(client, vec![one])).await);
            }
        }
    }
    locked
}

async fn store(client: &Client, results: &[JobResult]) -> Result<Vec<Reported>, Refusal> {
    let mut tries = 1;
    loop {
        match Remote::new(client).finish_jobs(results.iter().cloned()).await {
            Err(error) if error.is_retryable() && tries < TRIES => {
                tries += 1;
                sleep(WAIT).await;
            }
            finished => return Ok(finished?),
        }
    }
}
