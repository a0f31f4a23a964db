//! A running job that is taken away: its worker is cancelled, and no other.

use support::prelude::*;

/// What a worker of [`watched`] went through.
#[derive(Debug, Eq, PartialEq)]
enum Seen {
    Started(JobId, u16),
    Ended(JobId, u16),
}

/// Works until it is stopped, and says when it began and when it was over, however it ended.
fn watched(sender: mpsc::UnboundedSender<Seen>) -> impl Worker<Task> {
    move |job: RunningJob<Task>| {
        let sender = sender.clone();
        async move {
            let _end = End { sender: sender.clone(), id: job.id(), attempt: job.attempt() };
            let _ = sender.send(Seen::Started(job.id(), job.attempt()));
            job.stopped().await;
        }
    }
}

struct End {
    sender: mpsc::UnboundedSender<Seen>,
    id: JobId,
    attempt: u16,
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.sender.send(Seen::Ended(self.id, self.attempt));
    }
}

fn hard(database: &Database) -> Runner {
    quick(&database.client).lease(HOUR).stop_timeout(Duration::ZERO)
}

#[support::test]
async fn a_cancelled_job_reaches_its_worker_long_before_the_next_heartbeat(database: Database) {
    let (sender, mut seen) = mpsc::unbounded_channel();
    database.start(hard(&database).worker(watched(sender))).await;
    let left = database.client.insert(Task { n: 1 }).await.unwrap().id();
    assert_eq!(next(&mut seen).await, Seen::Started(left, 1));
    for n in 2..12 {
        let job = database.client.insert(Task { n }).await.unwrap().id();
        assert_eq!(next(&mut seen).await, Seen::Started(job, 1));
        let mut tx = database.pool().begin().await.unwrap();
        assert_eq!(database.client.cancel([job]).tx(&mut tx).await.unwrap(), [job]);
        tx.commit().await.unwrap();
        assert_eq!(next(&mut seen).await, Seen::Ended(job, 1), "that one, and not job {left}");
        assert_eq!(database.client.job(job).await.unwrap().unwrap().state, JobState::Cancelled);
    }
    assert_eq!(database.client.job(left).await.unwrap().unwrap().state, JobState::Running);
}

#[support::test]
async fn a_job_that_somebody_deleted_or_took_by_hand_reaches_its_worker_at_the_next_heartbeat(database: Database) {
    let (sender, mut seen) = mpsc::unbounded_channel();
    database.start(hard(&database).lease(Duration::from_secs(1)).worker(watched(sender))).await;
    database.enter_runner(Uuid::from_u128(0x7000_8000_0000_0000_0001), "other", "{}").await;
    for theft in ["DELETE FROM {schema}.job", "UPDATE {schema}.job SET worker = '00000000-0000-7000-8000-000000000001'"]
    {
        let job = database.client.insert(Task { n: 1 }).await.unwrap().id();
        assert_eq!(next(&mut seen).await, Seen::Started(job, 1));
        database.execute(theft).await;
        assert_eq!(next(&mut seen).await, Seen::Ended(job, 1));
    }
}

#[support::test]
async fn a_new_attempt_is_not_stopped_for_the_sake_of_the_old_one(database: Database) {
    let (sender, mut seen) = mpsc::unbounded_channel();
    database.start(hard(&database).worker(watched(sender))).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap().id();
    assert_eq!(next(&mut seen).await, Seen::Started(job, 1));
    for attempt in 1..20 {
        // Set back before the runner can have asked: it has both attempts in hand for a moment.
        database.client.cancel([job]).await.unwrap();
        database.client.retry([job]).await.unwrap();
        let mut both = [next(&mut seen).await, next(&mut seen).await];
        both.sort_by_key(|seen| matches!(seen, Seen::Started(..)));
        assert_eq!(both, [Seen::Ended(job, attempt), Seen::Started(job, attempt + 1)]);
    }
    // Nor later: another question does not stop what goes on.
    let other = database.client.insert(Task { n: 2 }).await.unwrap().id();
    assert_eq!(next(&mut seen).await, Seen::Started(other, 1));
    database.client.cancel([other]).await.unwrap();
    assert_eq!(next(&mut seen).await, Seen::Ended(other, 1));
    assert_eq!(database.client.job(job).await.unwrap().unwrap().state, JobState::Running);
    assert!(seen.is_empty());
}

/// Also where its completion deletes the job.
#[support::test]
async fn a_worker_that_completed_its_job_itself_tidies_up_undisturbed(database: Database) {
    for retention in [Retention::default(), Retention::default().completed(Duration::ZERO)] {
        tidies_up(&database, retention).await;
    }
}

async fn tidies_up(database: &Database, retention: Retention) {
    static GATE: Gate = Gate::closed();
    static TIDIED: Notify = Notify::const_new();
    let work = async |job: RunningJob<Task>| {
        if job.args.n > 0 {
            job.stopped().await;
            return Ok(());
        }
        let mut tx = job.client().pool().begin().await?;
        job.complete_in(&mut tx).await?;
        tx.commit().await?;
        GATE.pass().await;
        TIDIED.notify_one();
        Ok::<_, BoxError>(())
    };
    let runner = hard(database).lease(Duration::from_secs(1)).retention(retention).worker(work).start().await.unwrap();
    let own = database.client.insert(Task { n: 0 }).await.unwrap().id();
    GATE.begun(1).await;
    let beat = async || database.text("SELECT heartbeat_at::text FROM {schema}.runner").await;
    // Questions, by notification and by heartbeat.
    for n in 1..4 {
        let other = database.client.insert(Task { n }).await.unwrap().id();
        database.until_state(other, JobState::Running).await;
        let before = beat().await;
        database.client.cancel([other]).await.unwrap();
        eventually!(beat().await != before, "no heartbeat");
    }
    GATE.open(1);
    timeout(WAIT, TIDIED.notified()).await.expect("the work was not dropped");
    let row = database.client.job(own).await.unwrap();
    assert!(row.is_none_or(|row| row.state == JobState::Completed));
    runner.stop().await.unwrap();
}

#[support::test]
async fn a_job_cancelled_while_its_fetch_is_answered_reaches_its_worker(database: Database) {
    const JOBS: u32 = 400;
    // How many work: begun and not over.
    static WORKING: AtomicU32 = AtomicU32::new(0);
    let (sender, mut seen) = mpsc::unbounded_channel();
    let runner = hard(&database).worker(watched(sender)).start().await.unwrap();
    let client = database.client.clone();
    let inserting = tokio::spawn(async move {
        for n in 0..JOBS {
            client.insert(Task { n }).await.unwrap();
        }
    });
    let counting = tokio::spawn(async move {
        while let Some(seen) = seen.recv().await {
            match seen {
                Seen::Started(..) => WORKING.fetch_add(1, Ordering::SeqCst),
                Seen::Ended(..) => WORKING.fetch_sub(1, Ordering::SeqCst),
            };
        }
    });
    // As quick as can be after the fetch, so that some cancels come before its answer is read.
    let running = database.sql("SELECT id FROM {schema}.job WHERE state = 'running'");
    let cancelling = async {
        let mut cancelled = 0;
        while cancelled < JOBS as usize {
            let ids: Vec<uuid::Uuid> = sqlx::query_scalar(running.clone()).fetch_all(database.pool()).await.unwrap();
            cancelled += database.client.cancel(ids).await.unwrap().len();
        }
    };
    timeout(WAIT, cancelling).await.unwrap();
    inserting.await.unwrap();
    eventually!(WORKING.load(Ordering::SeqCst) == 0, "{} workers were not told", WORKING.load(Ordering::SeqCst));
    runner.stop().await.unwrap();
    counting.await.unwrap();
}

#[support::test]
async fn any_number_of_running_jobs_can_be_cancelled_in_one_statement(database: Database) {
    const JOBS: usize = 1_500;
    let (sender, mut seen) = mpsc::unbounded_channel();
    let mut listener = database.listen(&["control"]).await;
    let runner = database.runner().queue("many", JOBS).lease(HOUR).stop_timeout(Duration::ZERO);
    let runner = database.start(runner.worker(watched(sender))).await;
    let waiting = database.client.insert(Task { n: 0 }).await.unwrap().id();
    let jobs = (0..JOBS).map(|n| NewJob::from(Task { n: n as u32 }).queue("many"));
    let jobs: Vec<_> = database.client.insert_many(jobs).await.unwrap().iter().map(|job| job.id()).collect();
    for _ in 0..JOBS {
        assert!(matches!(next(&mut seen).await, Seen::Started(..)));
    }
    let all = jobs.iter().copied().chain([waiting]);
    assert_eq!(database.client.cancel(all).await.unwrap().len(), JOBS + 1);
    for _ in 0..JOBS {
        assert!(matches!(next(&mut seen).await, Seen::Ended(..)));
    }
    let notification = timeout(WAIT, listener.recv()).await.unwrap().unwrap();
    assert_eq!(notification.payload(), runner.to_string());
    assert!(listener.next_buffered().is_none(), "one notification a runner");
}
