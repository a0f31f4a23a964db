//! The tasks that insert and cancel jobs, through connections that break.

use support::prelude::*;

/// How long an answer is waited for, before the same is sent again over another connection.
pub const ANSWER: Duration = Duration::from_secs(3);

/// How long the same is sent again. No fault lasts for as long, on a busy machine either.
const LONGEST: Duration = Duration::from_secs(120);

/// How many keys the unique jobs share.
const KEYS: u64 = 40;

/// What the inserters know they did.
#[derive(Default)]
pub struct Ledger {
    /// The database said that these are in.
    pub acknowledged: Mutex<Vec<JobId>>,
    /// These were in transactions that never committed.
    pub rolled_back: Mutex<Vec<JobId>>,
    pub duplicates: AtomicU64,
    /// Inserts and commits whose answer was lost, and which were sent again.
    pub again: AtomicU64,
    pub cancels: AtomicU64,
}

/// Inserts jobs until its share is in. Goes no faster than the torment, so that each torment finds
/// jobs on their way: `pace` is how many thousandths of the share may be in.
pub async fn insert(client: Client, ledger: Arc<Ledger>, mut dice: Dice, share: usize, mut pace: watch::Receiver<u64>) {
    let mut inserted = 0;
    while inserted < share {
        pace.wait_for(|pace| (inserted as u64) < share as u64 * pace / 1_000).await.expect("a torment");
        let (how, size) = match dice.below(100) {
            0..40 => (How::Alone, 1),
            40..60 => (How::Transaction, 3),
            60..75 => {
                rolled_back(&client, &ledger, &mut dice).await;
                continue;
            }
            _ => (How::Batch, 1 + dice.below(60) as usize),
        };
        let size = size.min(share - inserted);
        let jobs: Vec<_> = (0..size).map(|_| job(&mut dice)).collect();
        let answers = send(&client, &ledger, how, &jobs).await;
        acknowledge(&ledger, &jobs, &answers);
        inserted += size;
        // So that no torment finds everything inserted already.
        tokio::time::sleep(dice.millis(2, 100)).await;
    }
}

/// Inserts jobs that kill their process, spread over the torment.
pub async fn poison(client: Client, ledger: Arc<Ledger>, count: usize, mut pace: watch::Receiver<u64>) {
    for number in 0..count {
        pace.wait_for(|pace| number as u64 * 1_000 / count as u64 <= *pace).await.expect("a torment");
        let id = JobId::generate();
        let jobs = [(NewJob::from(Work { deed: Deed::Abort, millis: 5 }).id(id), id)];
        let answers = send(&client, &ledger, How::Alone, &jobs).await;
        acknowledge(&ledger, &jobs, &answers);
    }
}

#[derive(Clone, Copy)]
enum How {
    Alone,
    Batch,
    /// As one batch: transactions that each take keys in several could deadlock.
    Transaction,
}

/// Sends jobs until the database answers. An answer that is lost is no matter, since the ids are
/// the inserter's: what is sent again is recognised.
async fn send(client: &Client, ledger: &Ledger, how: How, jobs: &[(NewJob, JobId)]) -> Vec<Inserted> {
    let began = Instant::now();
    loop {
        let sent = jobs.iter().map(|(job, _)| job.clone()).collect();
        let answer = timeout(ANSWER, try_to_send(client, how, sent)).await;
        let pool = client.pool();
        assert!(
            began.elapsed() < LONGEST || matches!(answer, Ok(Ok(_))),
            "{answer:?}, {} connections, {} idle",
            pool.size(),
            pool.num_idle()
        );
        match answer {
            Ok(Ok(answers)) => return answers,
            Ok(Err(error)) => assert!(error.is_retryable(), "{error:?}"),
            // Perhaps over a connection that fell silent.
            Err(_) => {}
        }
        ledger.again.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn try_to_send(client: &Client, how: How, jobs: Vec<NewJob>) -> uniqueue::Result<Vec<Inserted>> {
    match how {
        How::Alone => {
            let mut answers = Vec::new();
            for job in jobs {
                answers.push(client.insert(job).await?);
            }
            Ok(answers)
        }
        How::Batch => client.insert_many(jobs).await,
        How::Transaction => {
            let mut tx = client.pool().begin().await?;
            let answers = client.insert_many(jobs).tx(&mut tx).await?;
            tx.commit().await?;
            Ok(answers)
        }
    }
}

async fn rolled_back(client: &Client, ledger: &Ledger, dice: &mut Dice) {
    let (job, id) = job(dice);
    let tried = async {
        let mut tx = client.pool().begin().await?;
        client.insert(job).tx(&mut tx).await?;
        tx.rollback().await?;
        Ok::<_, Error>(())
    };
    // Without a commit it is not in, whatever broke.
    let _ = timeout(ANSWER, tried).await;
    ledger.rolled_back.lock().unwrap().push(id);
}

/// Cancels jobs that were inserted, whatever becomes of them, until told to stop.
pub async fn cancel(client: Client, ledger: Arc<Ledger>, mut dice: Dice) {
    loop {
        tokio::time::sleep(dice.millis(20, 120)).await;
        let chosen: Vec<_> = {
            let acknowledged = ledger.acknowledged.lock().unwrap();
            let latest = acknowledged.len().min(300) as u64;
            (0..2)
                .filter(|_| latest > 0)
                .map(|_| acknowledged[acknowledged.len() - 1 - dice.below(latest) as usize])
                .collect()
        };
        if let Ok(Ok(cancelled)) = timeout(ANSWER, client.cancel(chosen).into_future()).await {
            ledger.cancels.fetch_add(cancelled.len() as u64, Ordering::Relaxed);
        }
    }
}

fn acknowledge(ledger: &Ledger, jobs: &[(NewJob, JobId)], answers: &[Inserted]) {
    let mut acknowledged = ledger.acknowledged.lock().unwrap();
    for ((_, id), answer) in jobs.iter().zip(answers) {
        if answer.duplicate {
            ledger.duplicates.fetch_add(1, Ordering::Relaxed);
        } else {
            assert_eq!(answer.id(), *id);
            acknowledged.push(*id);
        }
    }
}

/// A job of any sort, under an id of the inserter's.
fn job(dice: &mut Dice) -> (NewJob, JobId) {
    let deed = match dice.below(100) {
        0..40 => Deed::Plain,
        40..45 => Deed::Output,
        45..60 => Deed::Fail,
        60..62 => Deed::Panic,
        62..72 => Deed::Snooze,
        72..74 => Deed::Cancel,
        74..76 => Deed::Discard,
        _ => Deed::Effect,
    };
    // Most are quick; some are caught in the act, and a few work for longer than a lease.
    let millis = match dice.below(1_000) {
        0..960 => dice.below(10),
        960..999 => 100 + dice.below(400),
        _ => 2_500,
    };
    let id = JobId::generate();
    let mut job = NewJob::from(Work { deed, millis }).id(id);
    if dice.percent(30) {
        job = job.unique_key(UniqueKey::raw(format!("key {}", dice.below(KEYS))).scope(UniqueScope::Active));
    }
    if dice.percent(30) {
        job = job.queue("other");
    }
    if dice.percent(10) {
        job = job.scheduled_in(dice.millis(100, 1_500));
    }
    if dice.percent(10) {
        job = job.max_attempts(1 + dice.below(3) as u16);
    }
    (job.priority(dice.below(3) as i16), id)
}
