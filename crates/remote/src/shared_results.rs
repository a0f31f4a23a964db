//! Results of many workers, which share their calls.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::{Instant, sleep};
use uniqueue::{Client, Error, Result};

use crate::remote::Remote;
use crate::result::{JobResult, Reported};

/// The most results of one call.
const MOST: usize = 500;

/// How often a call is sent, counting the first, after errors for which another try may succeed.
const TRIES: u32 = 4;

/// The wait before the second try of a call or of a result.
const WAIT: Duration = Duration::from_millis(50);

/// The longest wait before another try of a result whose job is locked.
const LONGEST_WAIT: Duration = Duration::from_millis(400);

type Waiting = (JobResult, oneshot::Sender<Result<Reported>>);

/// Ends the runs of many workers in few calls of [`Remote::finish_jobs`]: results that arrive during a call share the next one.
/// Three calls run at once at most, each over a connection of the client's pool. A clone sends to the same calls.
#[derive(Clone, Debug)]
pub struct SharedResults {
    first: mpsc::Sender<Waiting>,
    /// For results of locked jobs, which otherwise hold up the calls of all workers.
    again: mpsc::Sender<Waiting>,
}

impl SharedResults {
    /// Starts the tasks that send the results. They end after the last clone is dropped.
    #[must_use]
    pub fn start(client: &Client) -> Self {
        Self { first: start(client, 2), again: start(client, 1) }
    }

    /// Ends a run, and returns when the result is stored. While another transaction locks the job, the result is sent again for
    /// `max_wait`, and is then returned with `locked` set.
    ///
    /// # Errors
    ///
    /// As [`Remote::finish_jobs`], and a database error where the runtime ended the tasks that send the results. An invalid
    /// result fails no other result.
    pub async fn finish(&self, result: JobResult, max_wait: Duration) -> Result<Reported> {
        let stopped = || Error::from(sqlx::Error::WorkerCrashed);
        let (asked_at, mut calls, mut wait) = (Instant::now(), &self.first, WAIT);
        loop {
            let (answer, reported) = oneshot::channel();
            calls.send((result.clone(), answer)).await.map_err(|_| stopped())?;
            let reported = reported.await.map_err(|_| stopped())??;
            if !reported.locked || asked_at.elapsed() >= max_wait {
                return Ok(reported);
            }
            sleep(wait).await;
            (calls, wait) = (&self.again, LONGEST_WAIT.min(wait * 2));
        }
    }
}

/// Starts tasks that send results, each one call at a time.
fn start(client: &Client, tasks: usize) -> mpsc::Sender<Waiting> {
    let (sender, receiver) = mpsc::channel(2 * MOST);
    let receiver = Arc::new(Mutex::new(receiver));
    for _ in 0..tasks {
        tokio::spawn(run(client.clone(), Arc::clone(&receiver)));
    }
    sender
}

/// Stores results until all senders are gone.
async fn run(client: Client, receiver: Arc<Mutex<mpsc::Receiver<Waiting>>>) {
    let mut batch = Vec::new();
    while receiver.lock().await.recv_many(&mut batch, MOST).await > 0 {
        store_all(&client, std::mem::take(&mut batch)).await;
    }
}

/// Stores results and answers them.
async fn store_all(client: &Client, batch: Vec<Waiting>) {
    let (results, answers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    let is_alone = results.len() == 1;
    match store(client, &results).await {
        Ok(all) => {
            for (answer, reported) in answers.into_iter().zip(all) {
                let _ = answer.send(Ok(reported));
            }
        }
        Err(error) if is_alone => {
            if let Some(answer) = answers.into_iter().next() {
                let _ = answer.send(Err(error));
            }
        }
        // An invalid result must not fail the other results of its call.
        Err(_) => {
            for one in results.into_iter().zip(answers) {
                Box::pin(store_all(client, vec![one])).await;
            }
        }
    }
}

async fn store(client: &Client, results: &[JobResult]) -> Result<Vec<Reported>> {
    let mut tries = 1;
    loop {
        match Remote::new(client).finish_jobs(results.iter().cloned()).await {
            Err(error) if error.is_retryable() && tries < TRIES => {
                tries += 1;
                sleep(WAIT).await;
            }
            stored => return stored,
        }
    }
}
