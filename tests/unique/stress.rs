//! Many connections insert jobs of few keys while workers finish them and a pruner deletes them.
//!
//! Set `UNIQUEUE_STRESS_INSERTS` for another number of inserts a connection than 250, or 1,000 with `UNIQUEUE_SOAK`.

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
    let worked: Arc<Mutex<HashMap<JobId, u32>>> = Arc::default();
    let counted = worked.clone();
    let work = move |job: RunningJob<Task>| {
        *counted.lock().unwrap().entry(job.id()).or_default() += 1;
        async {}
    };
    let keep = Retention::forever().completed(Duration::ZERO);
    let runner = Runner::new(database.client.clone())
        .queue("default", 100)
        .worker(work)
        .retention(keep)
        .prune_interval(Duration::from_millis(20))
        .start()
        .await
        .unwrap();

    let is_over = Arc::new(AtomicBool::new(false));
    let observer = tokio::spawn(observe(database.clone(), is_over.clone()));
    let begun = Instant::now();
    let inserters: Vec<_> = (0..CONNECTIONS)
        .map(|connection| {
            let client = database.client.clone();
            tokio::spawn(async move {
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
            })
        })
        .collect();
    let mut inserted = Vec::new();
    for inserter in inserters {
        inserted.extend(inserter.await.unwrap());
    }
    let took = begun.elapsed();

    // The pruner leaves nothing of what was worked.
    eventually!(database.number("SELECT count(*) FROM {schema}.job").await == 0, "jobs are left");
    is_over.store(true, Ordering::Relaxed);
    let looks = observer.await.unwrap();
    runner.stop().await.unwrap();
    let worked = worked.lock().unwrap();
    assert_eq!(worked.len(), inserted.len());
    for id in &inserted {
        assert_eq!(worked.get(id), Some(&1), "job {id} is worked exactly once");
    }
    let all = CONNECTIONS * inserts;
    println!(
        "{all} inserts in {took:?}: {} jobs, {} duplicates, {looks} looks, {:.0} inserts/s",
        inserted.len(),
        all - inserted.len(),
        all as f64 / took.as_secs_f64(),
    );
}

/// Looks without pause for keys that two jobs claim. Answers how often it looked.
async fn observe(database: Arc<Database>, is_over: Arc<AtomicBool>) -> u64 {
    let twice = database.sql(
        "SELECT j.unique_key
         FROM {schema}.job AS j
         WHERE j.state::text = ANY ({schema}.state_names(j.unique_states))
         GROUP BY j.unique_key
         HAVING count(*) FILTER (WHERE NOT j.unique_yielded) > 1 OR count(*) FILTER (WHERE j.claims) > 1",
    );
    let mut connection = database.pool().acquire().await.unwrap();
    let mut looks = 0;
    while !is_over.load(Ordering::Relaxed) {
        if let Some(row) = sqlx::query(twice.clone()).fetch_optional(&mut *connection).await.unwrap() {
            panic!("two jobs claim {}", row.get::<String, _>(0));
        }
        looks += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    looks
}
