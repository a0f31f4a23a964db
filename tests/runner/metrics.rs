//! Metrics: their names, their labels and their values.

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use uniqueue::metrics;

use support::prelude::*;

/// What a recorder was told so far. Its snapshots take values out, so they are added up here.
struct Tally {
    snapshots: Snapshotter,
    sums: BTreeMap<String, f64>,
    recorded: BTreeMap<String, Vec<f64>>,
}

impl Tally {
    fn new(recorder: &DebuggingRecorder) -> Self {
        Self { snapshots: recorder.snapshotter(), sums: BTreeMap::new(), recorded: BTreeMap::new() }
    }

    fn look(&mut self) {
        for (key, _, meaning, value) in self.snapshots.snapshot().into_vec() {
            let key = key.key();
            let name = key.name().strip_prefix("uniqueue_").expect("our name").to_owned();
            assert!(meaning.is_some(), "{name} is described");
            let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let name = format!("{name} {}", labels.join(" ")).trim_end().to_owned();
            match value {
                DebugValue::Counter(count) => *self.sums.entry(name).or_default() += count as f64,
                DebugValue::Gauge(change) => *self.sums.entry(name).or_default() += change.into_inner(),
                DebugValue::Histogram(values) => {
                    self.recorded.entry(name).or_default().extend(values.into_iter().map(f64::from));
                }
            }
        }
    }

    fn sum(&self, name: &str) -> f64 {
        self.sums.get(name).copied().unwrap_or_default()
    }

    /// Looks until a sum is what it should be.
    async fn until(&mut self, name: &str, sum: f64) {
        eventually!(
            {
                self.look();
                (self.sum(name) - sum).abs() < 0.5
            },
            "{name} is not {sum}: {:?}",
            self.sums
        );
    }
}

/// The recorder is this thread's, and so is everything that the test runs.
#[tokio::test(flavor = "current_thread")]
async fn jobs_are_counted_and_measured_by_kind_and_queue() {
    let recorder = DebuggingRecorder::new();
    let _guard = ::metrics::set_default_local_recorder(&recorder);
    let mut tally = Tally::new(&recorder);
    let database = Database::new().await;
    let client: &Client = &database.client;
    metrics::describe();

    static GATE: Gate = Gate::closed();
    let work = async |job: RunningJob<Task>| match job.args.n {
        0 => {
            GATE.pass().await;
            Ok(Outcome::complete())
        }
        1 => Err(format!("no luck {}", job.attempt())),
        2 => Ok(Outcome::snooze(Duration::from_secs(600))),
        3 => Ok(Outcome::cancel("not wanted")),
        _ => Ok(Outcome::complete_with(4).unwrap()),
    };
    let key = || UniqueKey::raw("k");
    client.insert_many([job("a"), job("a").unique_key(key()), job("a").unique_key(key())]).await.unwrap();
    client.insert(job("a").queue("other")).await.unwrap();
    client.cancel([client.insert(job("b")).await.unwrap().id()]).await.unwrap();

    let runner = quick(client).worker(work).start().await.unwrap();
    for n in 0..6 {
        client.insert(Task { n }).max_attempts(2).await.unwrap();
    }
    GATE.begun(1).await;
    let task = "kind=task queue=default";
    tally.until(&format!("completed_total {task}"), 2.0).await;
    tally.until(&format!("discarded_total {task}"), 1.0).await;
    tally.until(&format!("snoozed_total {task}"), 1.0).await;
    tally.until(&format!("cancelled_total {task}"), 1.0).await;
    // One still runs.
    tally.until("running_jobs queue=default", 1.0).await;
    tally.until("free_slots queue=default", 9.0).await;
    GATE.open(1);
    tally.until(&format!("completed_total {task}"), 3.0).await;
    tally.until("running_jobs queue=default", 0.0).await;
    runner.stop().await.unwrap();
    tally.until("free_slots queue=default", 0.0).await;

    for (name, sum) in [
        ("inserted_total kind=a queue=default", 2.0),
        ("inserted_total kind=a queue=other", 1.0),
        ("duplicates_total kind=a queue=default", 1.0),
        ("inserted_total kind=b queue=default", 1.0),
        ("cancelled_total kind=b queue=default", 1.0),
        ("inserted_total kind=task queue=default", 6.0),
        ("started_total kind=task queue=default", 7.0),
        ("retried_total kind=task queue=default", 1.0),
        ("buffered_jobs queue=default", 0.0),
    ] {
        assert!((tally.sum(name) - sum).abs() < 0.5, "{name} is not {sum}: {:?}", tally.sums);
    }
    for name in ["wait_seconds", "work_seconds"] {
        let values = &tally.recorded[&format!("{name} {task}")];
        assert_eq!(values.len(), 7, "{name}");
        assert!(values.iter().all(|seconds| (0.0..WAIT.as_secs_f64()).contains(seconds)), "{name}: {values:?}");
    }
    let fetched: f64 = tally.recorded["fetch_jobs"].iter().sum();
    let finished: f64 = tally.recorded["finish_jobs"].iter().sum();
    assert!(fetched > 6.5 && finished > 6.5, "{fetched} {finished}");
    assert_eq!(tally.recorded["fetch_seconds"].len(), tally.recorded["fetch_jobs"].len());
    assert_eq!(tally.recorded["finish_seconds"].len(), tally.recorded["finish_jobs"].len());
    // Nothing else made a series.
    assert_eq!(tally.recorded.len(), 6, "{:?}", tally.recorded.keys());
}

#[tokio::test(flavor = "current_thread")]
async fn queues_are_measured_where_the_application_asks() {
    let recorder = DebuggingRecorder::new();
    let _guard = ::metrics::set_default_local_recorder(&recorder);
    let mut tally = Tally::new(&recorder);
    let database = Database::new().await;
    let client = &database.client;
    metrics::describe();
    client.insert_many((0..3).map(|_| job("a").queue("measured"))).await.unwrap();
    database.pass(HOUR).await;
    Admin::new(client).record_queue_metrics().await.unwrap();
    tally.look();
    assert!((tally.sum("available_jobs queue=measured") - 3.0).abs() < 0.5, "{:?}", tally.sums);
    assert!(tally.sum("oldest_available_age_seconds queue=measured") > 3_599.0, "{:?}", tally.sums);
    // A queue without jobs is not listed any more.
    database.execute("DELETE FROM {schema}.job").await;
    Admin::new(client).record_queue_metrics().await.unwrap();
    // The tally adds up what a gauge was set to.
    let before = tally.sum("available_jobs queue=measured");
    tally.look();
    assert!((tally.sum("available_jobs queue=measured") - before).abs() < 0.5, "{:?}", tally.sums);
}
