//! Many connections insert jobs of few keys while workers finish them and a pruner deletes them.
//!
//! Set `UNIQUEUE_STRESS_INSERTS` for another number of inserts a connection than 250, or 1,000 with `UNIQUEUE_SOAK`.

use crate::machine::watch_claims;
use support::prelude::*;

const CONNECTIONS: usize = 16;
const KEYS: usize = 100;

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "task")]
struct Task {
    key: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r1_r11_contended_inserts_while_workers_finish_and_a_pruner_deletes() {
    let inserts: usize =
        std::env::var("UNIQUEUE_STRESS_INSERTS").map_or(soak(250, 1_000), |given| given.parse().unwrap());
    let database = Arc::new(Database::with_connections(CONNECTIONS as u32 + 8).await);
    static WORKED: Mutex<BTreeMap<JobId, u32>> = Mutex::new(BTreeMap::new());
    let work = async |job: RunningJob<Task>| *WORKED.lock().unwrap().entry(job.id()).or_default() += 1;
    let runner = database.runner().queue("default", 100).worker(work);
    let runner = runner.retention(Retention::forever().completed(Duration::ZERO));
    database.start(runner.prune_interval(Duration::from_millis(20))).await;

    let watch = tokio::spawn(watch_claims(database.clone()));
    let insert = |connection| {
        let client = database.client.clone();
        async move {
            let mut new = Vec::new();
            for n in 0..inserts {
                let key = (n * 7 + connection * 13) % KEYS;
                // From claims that end with the start to claims that end with the deletion.
                let scope = [UniqueScope::Queued, UniqueScope::Active, UniqueScope::Completed][key % 3];
                let wanted = format!("k{key}");
                let unique_key = UniqueKey::raw(&wanted).scope(scope);
                let answer = client.insert(Task { key }).unique_key(unique_key).await.unwrap();
                assert_eq!(answer.job.unique_key.as_deref(), Some(wanted.as_str()));
                if !answer.duplicate {
                    new.push(answer.id());
                }
            }
            new
        }
    };
    let inserted = together((0..CONNECTIONS).map(insert)).await.concat();

    // The pruner leaves nothing of what was worked.
    eventually!(database.number("SELECT count(*) FROM {schema}.job").await == 0, "jobs are left");
    assert!(!watch.is_finished(), "two jobs claimed a key");
    watch.abort();
    database.end().await;
    let worked = WORKED.lock().unwrap();
    assert_eq!(worked.len(), inserted.len());
    for id in &inserted {
        assert_eq!(worked.get(id), Some(&1), "job {id} is worked exactly once");
    }
}
