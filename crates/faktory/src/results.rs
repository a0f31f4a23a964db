//! Results of all connections. The results that arrive during a call are sent in the next call.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::sleep;
use uniqueue::{Client, FinishedRun, JobResult};

use crate::refusal::Refusal;

/// The most results of one call, and the most calls at once.
const MOST: usize = 500;
pub(crate) const AT_ONCE: usize = 2;

/// How often a call is tried where the database says that another try may succeed, and the wait before it.
const TRIES: u32 = 4;
const WAIT: Duration = Duration::from_millis(50);

type Answer = oneshot::Sender<Result<FinishedRun, Refusal>>;

/// Sends results.
#[derive(Clone, Debug)]
pub(crate) struct Results(mpsc::Sender<(JobResult, Answer)>);

/// The results that wait for the next call. The tasks of [`run`] share them.
#[derive(Clone)]
pub(crate) struct Queue(Arc<Mutex<mpsc::Receiver<(JobResult, Answer)>>>);

impl Results {
    pub(crate) fn new() -> (Self, Queue) {
        let (sender, receiver) = mpsc::channel(2 * MOST);
        (Self(sender), Queue(Arc::new(Mutex::new(receiver))))
    }

    /// Ends a run. Answers when the result is stored.
    pub(crate) async fn finish(&self, result: JobResult) -> Result<FinishedRun, Refusal> {
        let stopped = || Refusal::new("The server is stopping");
        let (answer, receiver) = oneshot::channel();
        self.0.send((result, answer)).await.map_err(|_| stopped())?;
        receiver.await.map_err(|_| stopped())?
    }
}

/// Stores results until all senders are gone.
pub(crate) async fn run(client: Client, queue: Queue) {
    let mut batch = Vec::new();
    loop {
        let mut receiver = queue.0.lock().await;
        if receiver.recv_many(&mut batch, MOST).await == 0 {
            return;
        }
        drop(receiver);
        let (results, answers): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
        match store(&client, &results).await {
            Ok(finished) => {
                for ((answer, result), finished) in answers.into_iter().zip(results).zip(finished) {
                    if finished.locked {
                        tokio::spawn(store_locked(client.clone(), result, answer));
                    } else {
                        let _ = answer.send(Ok(finished));
                    }
                }
            }
            Err(refusal) if results.len() == 1 => answers.into_iter().for_each(|answer| {
                let _ = answer.send(Err(refusal.clone()));
            }),
            // An invalid result must not fail the other results of its call.
            Err(_) => {
                for (result, answer) in results.into_iter().zip(answers) {
                    let finished = store(&client, &[result]).await;
                    let _ =
                        answer.send(finished.and_then(|mut one| one.pop().ok_or_else(|| Refusal::new("no answer"))));
                }
            }
        }
    }
}

/// A job that an operator's transaction has locked holds up its own connection only.
async fn store_locked(client: Client, result: JobResult, answer: Answer) {
    let finished = loop {
        sleep(WAIT).await;
        match store(&client, std::slice::from_ref(&result)).await.map(|mut one| one.pop()) {
            Ok(Some(finished)) if !finished.locked => break Ok(finished),
            Ok(_) if !answer.is_closed() => {}
            Ok(_) => return,
            Err(refusal) => break Err(refusal),
        }
    };
    let _ = answer.send(finished);
}

async fn store(client: &Client, results: &[JobResult]) -> Result<Vec<FinishedRun>, Refusal> {
    let mut tries = 1;
    loop {
        match client.finish_jobs(results.iter().cloned()).await {
            Err(error) if error.is_retryable() && tries < TRIES => {
                tries += 1;
                sleep(WAIT).await;
            }
            finished => return Ok(finished?),
        }
    }
}
