//! Runners in processes of their own that are killed, stopped past their lease and continued, on a
//! database that crashes, through connections that break, while others insert and cancel.
//!
//! Small by default; for long runs see CONTRIBUTING.md.

mod deaths;
mod insert;
mod poison;
mod torment;
pub(crate) mod verdict;

use self::insert::Ledger;
use self::torment::{CALM, Tormentor};
use support::prelude::*;
use support::process::application_pool;

const INSERTERS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_lost_and_none_is_finished_twice_whatever_dies() {
    torment(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_holds_under_icu_and_serializable_and_with_a_clock_that_jumps() {
    torment(true).await;
}

async fn torment(is_odd: bool) {
    let jobs = setting("UNIQUEUE_CHAOS_JOBS", soak(1_500, 3_000));
    let rounds = setting("UNIQUEUE_CHAOS_ROUNDS", jobs.div_ceil(5_000).max(soak(1, 2)));
    let runners = setting("UNIQUEUE_CHAOS_RUNNERS", 3);
    let seed = setting("UNIQUEUE_CHAOS_SEED", std::process::id() as usize) as u64;
    println!("chaos: {jobs} jobs, {rounds} rounds, {runners} runners, UNIQUEUE_CHAOS_SEED={seed}");
    let began = Instant::now();

    let cluster = if is_odd { Cluster::start_odd("odd").await } else { Cluster::start("runners").await };
    let url = cluster.proxy.url();
    let ledger: Arc<Ledger> = Arc::default();
    let (pace, paced) = watch::channel(0);
    let poison = 1 + jobs / 20_000;
    let poisoner = tokio::spawn(insert::poison(client(&url), Arc::clone(&ledger), poison, paced.clone()));
    let inserters: Vec<_> = (0..INSERTERS)
        .map(|number| {
            let dice = Dice::new(seed, 100 + number as u64);
            let share = jobs / INSERTERS + usize::from(number < jobs % INSERTERS);
            tokio::spawn(insert::insert(client(&url), Arc::clone(&ledger), dice, share, paced.clone()))
        })
        .collect();
    let canceller = tokio::spawn(insert::cancel(client(&url), Arc::clone(&ledger), Dice::new(seed, 200)));
    let (is_over, looks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let observer = tokio::spawn(verdict::observe(application_pool(&url, 3), Arc::clone(&is_over), Arc::clone(&looks)));

    // A runner dies, stops or loses its connections every few seconds. Over a long run that happens to some innocent jobs
    // three times in a row, and the third time while they run alone. A jump of the clock ends all leases at once.
    let max_crashes = match jobs {
        _ if is_odd => 4,
        0..=10_000 => 3,
        _ => 5,
    };
    let mut tormentor = Tormentor::new(cluster, runners, Dice::new(seed, 1), max_crashes);
    tormentor.torment(rounds, &pace).await;
    for inserter in inserters {
        inserter.await.unwrap();
    }
    poisoner.await.unwrap();
    canceller.abort();
    let tormented_for = began.elapsed();
    verdict::settle(&mut tormentor, CALM).await;
    is_over.store(true, Ordering::Relaxed);
    observer.await.unwrap();
    verdict::record(&tormentor.cluster.direct, &ledger).await;
    let (cluster, tormented) = tormentor.finish().await;
    let (table, crimes) = verdict::verdict(&cluster.direct).await;
    cluster.stop().await;

    println!(
        "torment {tormented_for:.1?}, all done after {:.1?}\n{tormented}{}{table}",
        began.elapsed(),
        known(&ledger)
    );
    println!("looks at claims               {:>9}", looks.load(Ordering::Relaxed));
    assert!(crimes.is_empty(), "UNIQUEUE_CHAOS_SEED={seed}: {crimes:?}");
    assert!(looks.load(Ordering::Relaxed) > 0, "no check of the claims ran");
}

fn known(ledger: &Ledger) -> String {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    format!(
        "inserts acknowledged          {:>9}\n  duplicates                  {:>9}\n  rolled back                 {:>9}\n  sent again                  {:>9}\njobs cancelled                {:>9}\n",
        ledger.acknowledged.lock().unwrap().len(),
        count(&ledger.duplicates),
        ledger.rolled_back.lock().unwrap().len(),
        count(&ledger.again),
        count(&ledger.cancels),
    )
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name)
        .map_or(default, |given| given.parse().unwrap_or_else(|_| panic!("{name} is no number: {given:?}")))
}

fn client(url: &str) -> Client {
    Client::new(application_pool(url, 3))
}
