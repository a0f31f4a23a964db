//! A backfill beside inserts, runners, open transactions and a second backfill.

use uniqueue_admin::Backfill;

use super::{by_n, counts, no_claim_is_missing, numbered, plain};
use support::prelude::*;

#[support::test]
async fn inserts_and_workers_go_on_and_no_job_is_lost(database: Database, client: &Client) {
    const NUMBERS: usize = 400;

    #[derive(Debug, Deserialize, Job, Serialize)]
    #[job(kind = "a")]
    struct Task {
        n: usize,
    }

    let before = plain(&database, NUMBERS, 2).await;
    static WORKED: Mutex<BTreeMap<JobId, usize>> = Mutex::new(BTreeMap::new());
    let work = async |job: RunningJob<Task>| {
        assert!(job.args.n < NUMBERS);
        *WORKED.lock().unwrap().entry(job.id()).or_default() += 1;
    };
    let runner = database.runner().queue("default", 4).worker(work);
    database.start(runner).await;
    eventually!(!WORKED.lock().unwrap().is_empty());
    let (inserted, reports) = tokio::join!(
        async {
            let mut inserted = Vec::new();
            for n in (0..NUMBERS).chain(0..NUMBERS).step_by(3) {
                let answer = client.insert(numbered(n).unique(by_n())).await.unwrap();
                if !answer.duplicate {
                    inserted.push(answer.id());
                }
            }
            inserted
        },
        async {
            let one = Backfill::keys_of(client, "a", by_n()).batch(20);
            let another = Backfill::keys_of(client, "a", by_n()).batch(33);
            tokio::join!(one, another)
        },
    );
    for report in [reports.0.unwrap(), reports.1.unwrap()] {
        assert_eq!((report.unfit, report.other_key, report.cancelled), (0, 0, 0), "{report:?}");
    }
    no_claim_is_missing(&database).await;
    let all = before.len() + inserted.len();
    eventually!(WORKED.lock().unwrap().len() >= all, "{} of {all} were worked", WORKED.lock().unwrap().len());
    database.end().await;
    assert!(WORKED.lock().unwrap().values().all(|times| *times == 1));
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE state = 'completed'").await as usize, all);
}

#[support::test]
async fn two_at_once_come_to_what_one_comes_to(database: Database, client: &Client) {
    plain(&database, 300, 2).await;
    let backfill = || Backfill::keys_of(client, "a", by_n()).batch(7);
    let (one, another) = tokio::join!(backfill(), backfill());
    let (one, another) = (one.unwrap(), another.unwrap());
    assert_eq!((one.jobs, another.jobs), (600, 600));
    assert!(one.claimed < 300 || another.claimed < 300 || one.claimed + another.claimed == 300);
    let jobs = client.jobs(JobFilter::all().limit(600)).await.unwrap();
    assert!(jobs.iter().all(|job| job.unique_key.is_some()));
    assert_eq!(jobs.iter().filter(|job| job.claims).count(), 300);

    assert_eq!(counts(&Backfill::keys_of(client, "a", by_n()).await.unwrap()), [600, 300, 0, 0, 0, 300, 0, 0, 0]);
}

#[support::test]
async fn killed_in_the_middle_it_goes_on_when_it_is_run_again(database: Database, client: &Client) {
    plain(&database, 500, 1).await;
    let batches = Arc::new(AtomicUsize::new(0));
    let enough = Arc::new(Notify::new());
    let (told, signal) = (Arc::clone(&batches), Arc::clone(&enough));
    let backfill = Backfill::keys_of(client, "a", by_n()).batch(10).on_progress(move |progress| {
        assert!((0.0..=1.0).contains(&progress.part));
        if told.fetch_add(1, Ordering::AcqRel) == 4 {
            signal.notify_one();
        }
    });
    // Dropped between two polls: wherever it is, its transaction is gone with it.
    tokio::select! {
        biased;
        () = enough.notified() => {}
        report = backfill.into_future() => panic!("it ended: {report:?}"),
    }
    let keyed = "SELECT count(*) FROM {schema}.job WHERE unique_key IS NOT NULL";
    let before = database.number(keyed).await;
    assert!((50..500).contains(&before), "{before}");
    let report = Backfill::keys_of(client, "a", by_n()).await.unwrap();
    assert_eq!((report.jobs, report.unchanged + report.claimed), (500, 500), "{report:?}");
    assert_eq!(database.number(keyed).await, 500);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE claims").await, 500);
}

#[support::test]
async fn what_others_hold_fast_is_left_until_they_let_go(database: Database, client: &Client) {
    let ids = plain(&database, 3, 1).await;
    // A worker's transaction has the first row, an inserter's the key of the second.
    let mut holds = database.begin(&format!("SELECT FROM {{schema}}.job WHERE id = '{}' FOR UPDATE", ids[0])).await;
    client.insert(numbered(1).unique(by_n())).tx(&mut holds).await.unwrap();
    let mut holds = Some(holds);
    let (let_go, mut told) = mpsc::unbounded_channel();
    let backfill = Backfill::keys_of(client, "a", by_n()).on_progress(move |_| {
        let _ = let_go.send(());
    });
    let (report, ()) = tokio::join!(backfill.into_future(), async {
        // When it has gone past them once.
        told.recv().await.unwrap();
        assert!(database.row(ids[2]).await.claims);
        assert!(database.row(ids[0]).await.unique_key.is_none());
        holds.take().unwrap().rollback().await.unwrap();
    });
    assert_eq!(counts(&report.unwrap()), [3, 0, 3, 0, 0, 0, 0, 0, 0]);
    assert!(database.row(ids[0]).await.claims && database.row(ids[1]).await.claims);
}

#[support::test]
async fn a_job_that_is_due_since_ever_gets_its_key(database: Database, client: &Client) {
    let ids = plain(&database, 3, 1).await;
    for (id, due) in ids.iter().zip(["-infinity", "4713-01-02 BC", "200000-01-01"]) {
        database.execute(&format!("UPDATE {{schema}}.job SET scheduled_at = '{due}' WHERE id = '{id}'")).await;
    }
    assert_eq!(counts(&Backfill::keys_of(client, "a", by_n()).await.unwrap()), [3, 0, 3, 0, 0, 0, 0, 0, 0]);
}

#[support::test]
async fn more_contested_jobs_than_a_statement_reads_are_all_tried_again(database: Database, client: &Client) {
    plain(&database, 2_100, 1).await;
    let mut holds = Some(database.begin("SELECT FROM {schema}.job FOR UPDATE").await);
    let (let_go, mut told) = mpsc::unbounded_channel();
    let backfill = Backfill::keys_of(client, "a", by_n()).batch(5_000).on_progress(move |progress| {
        let _ = let_go.send(progress);
    });
    let (report, ()) = tokio::join!(backfill.into_future(), async {
        let mut parts = Vec::new();
        while let Some(progress) = timeout(WAIT, told.recv()).await.unwrap() {
            parts.push(progress.part);
            if progress.scanned == 2_100 && holds.is_some() {
                holds.take().unwrap().rollback().await.unwrap();
            }
        }
        assert!(parts.is_sorted() && parts.len() > 2, "it never goes back: {parts:?}");
    });
    assert_eq!(counts(&report.unwrap()), [2_100, 0, 2_100, 0, 0, 0, 0, 0, 0]);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE claims").await, 2_100);
}

#[support::test]
async fn what_makes_no_key_is_refused_before_anything_changes(database: Database, client: &Client) {
    #[derive(Debug, Deserialize, Job, Serialize)]
    #[job(kind = "a")]
    struct Plain {}

    client.insert(Plain {}).await.unwrap();
    let bad: Value = json!({"keys": ["args"], "args_keys": []});
    assert!(UniquePolicy::from_ojs(&bad).is_err());
    let error = Backfill::keys_of(client, "a", UniquePolicy::river()).await.unwrap_err();
    assert!(matches!(error, Error::InvalidPolicy { .. }), "{error}");
    assert!(Backfill::keys_of(client, "a", UniquePolicy::new().states([])).await.is_err());
    assert!(Backfill::keys_of(client, "", by_n()).await.is_err());
    assert!(Backfill::keys_of(client, "a", by_n()).batch(0).await.is_err());
    let report = Backfill::keys::<Plain>(client).await.unwrap();
    assert_eq!((report.jobs, report.unfit), (1, 1));
    assert!(report.unfit_jobs[0].problem.contains("neither a policy nor a key"), "{report:?}");
    assert_eq!(Backfill::keys_of(client, "nobody", by_n()).await.unwrap().jobs, 0);
}
