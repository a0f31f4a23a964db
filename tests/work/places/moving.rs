//! A place moves to another server while it is in use.

use super::{open, ready, unfinished};
use support::prelude::*;
use support::tools;

async fn server() -> Postgres {
    let settings = [("wal_level", "logical"), ("max_wal_senders", "10"), ("max_replication_slots", "10")];
    let server = Postgres::builder().durability(Durability::Durable).max_connections(100);
    settings.iter().fold(server, |server, (name, value)| server.setting(*name, *value)).start().await.unwrap()
}

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

/// How many inserts the history knows, by queue.
async fn inserted(client: &Client) -> BTreeMap<String, u64> {
    let totals = Admin::new(client).history_totals().await.unwrap();
    totals.into_iter().map(|of| (of.queue.to_string(), of.counts.inserted)).collect()
}

/// Nothing can be done at the old address, and each answer names the new one.
async fn refuses_as_moved(before: &Places, old: &str, new: &str) {
    let moved = format!("has moved to {new}");
    let judge = |error: Error| assert!(error.is_retryable() && error.to_string().contains(&moved), "{error}");
    let late = open(before.map().clone());
    for places in [before, &late] {
        judge(places.insert(NewJob::from(Task { n: 0 }).place(PlaceBy::Id)).await.unwrap_err());
        judge(places.migrate().await.remove(0).1.unwrap_err());
        judge(places.init().await.remove(0).1.unwrap_err());
        judge(places.check().await.remove(0).1.unwrap_err());
        let runner = Runner::new(places.at("a").unwrap().clone()).queue("default", 1);
        judge(runner.worker(at_once).start().await.map(drop).unwrap_err());
    }
    // Without a map.
    let plain = Client::connect(old).await.unwrap();
    judge(plain.insert(Task { n: 0 }).await.unwrap_err());
    judge(plain.job(JobId::generate()).await.unwrap_err());
    judge(plain.migrate().await.unwrap_err());
    judge(plain.queue("default").pause().await.map(drop).unwrap_err());
    judge(plain.cancel([JobId::generate()]).await.map(drop).unwrap_err());
    for sql in [
        "SELECT uniqueue.insert_job('task', queue => 'default')",
        "SELECT id FROM uniqueue.insert_job('task')",
        "SELECT i.id FROM uniqueue.insert_jobs('[]') AS i",
        "SELECT f.args FROM uniqueue.fetch_jobs('{default}', 'a worker') AS f",
        "SELECT uniqueue.name_place('a', '{a}', adopt => true)",
        "SELECT uniqueue.leave_tombstone('elsewhere')",
        "SELECT count(*) FROM uniqueue.job WHERE state = 'available'",
        "SELECT q.queue FROM uniqueue.queue_status AS q",
    ] {
        let error = sqlx::query(sql).fetch_all(plain.pool()).await.unwrap_err().to_string();
        assert!(error.contains(&moved), "{sql}: {error}");
    }
}

/// No two rows hold an active claim to one key.
async fn one_claim_a_key(client: &Client) {
    let twice = "SELECT unique_key FROM uniqueue.job WHERE claims GROUP BY unique_key HAVING count(*) > 1";
    let twice: Vec<String> = sqlx::query_scalar(twice).fetch_all(client.pool()).await.unwrap();
    assert!(twice.is_empty(), "{twice:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_moves_under_load_without_a_lost_job_or_a_key_twice() {
    if Command::new("psql").arg("--version").output().is_err() {
        return tools::lacks("psql", "PostgreSQL's clients");
    }
    let (old, new) = (server().await, server().await);
    // The script takes the first pg_dump of the path.
    let Some(pg_dump) = tools::of_server("pg_dump", old.url()).await else { return };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = pg_dump.parent().map(Path::to_path_buf).into_iter().chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).unwrap();
    let map = |url: &str| PlaceMap::new([PlaceAddress::new("a", url).unwrap()]).unwrap().hashed(["a"]).unwrap();
    let places = ready(map(old.url())).await;
    let (publish, current) = watch::channel(places);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut inserters = Vec::new();
    for user in 0..3_u32 {
        let (is_over, current) = (Arc::clone(&is_over), current.clone());
        inserters.push(tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            for n in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let (id, key) = (JobId::generate(), format!("key {}", (n * 7 + user) % 50));
                // Sent again, by the newest map, until it is answered.
                loop {
                    let places = current.borrow().clone();
                    let key = UniqueKey::raw(&key).scope(UniqueScope::Active);
                    let job = NewJob::from(Task { n }).unique_key(key).place(PlaceBy::UniqueKey).id(id);
                    match places.insert(job).await {
                        Ok(answer) => {
                            // If an earlier answer was lost, this is the job's own id.
                            acknowledged.push(answer.1.id());
                            break;
                        }
                        // After the move the newest map is tried.
                        Err(error) => {
                            assert!(error.is_retryable(), "{error}");
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                    }
                }
            }
            acknowledged
        }));
    }
    let build = |client| Runner::new(client).queue("default", 5).worker(at_once).lease(Duration::from_secs(2));
    let before = current.borrow().clone();
    let runner = before.runner(build).start().await.unwrap();
    let worked = |places: Places| async move {
        let count = "SELECT count(*) FROM uniqueue.job WHERE state = 'completed'";
        sqlx::query(count).fetch_one(places.at("a").unwrap().pool()).await.unwrap().get::<i64, _>(0)
    };
    eventually!(let done = worked(before.clone()).await; done > 50, "{done}");

    // The counts of this process, and the count of a call in SQL that is not added up yet.
    let old_client = before.at("a").unwrap();
    let in_sql = "SELECT uniqueue.insert_job('task', '{\"n\": 1}', queue => 'by_sql')";
    sqlx::query(in_sql).execute(old_client.pool()).await.unwrap();
    sqlx::query("DELETE FROM uniqueue.job WHERE queue = 'by_sql'").execute(old_client.pool()).await.unwrap();
    old_client.write_history().await.unwrap();
    let counted = inserted(old_client).await;
    assert!(counted["default"] > 0, "{counted:?}");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/move-place");
    let (from, to) = (old.url().to_owned(), new.url().to_owned());
    let moving =
        tokio::task::spawn_blocking(move || Command::new(script).env("PATH", path).args([from, to]).output().unwrap());
    let moved = timeout(WAIT * 3, moving).await.unwrap().unwrap();
    assert!(moved.status.success(), "{moved:?}");
    refuses_as_moved(&before, old.url(), new.url()).await;
    let after = open(map(new.url()));
    after.check().await.remove(0).1.unwrap();
    publish.send(after.clone()).unwrap();
    let second = after.runner(build).start().await.unwrap();
    let moved_with = worked(after.clone()).await;
    let client = after.at("a").unwrap();
    eventually!(
        let done = { one_claim_a_key(client).await; worked(after.clone()).await };
        done > moved_with + 50, "{done} of {moved_with}"
    );
    is_over.store(true, Ordering::Relaxed);
    let mut acknowledged = BTreeSet::new();
    for inserter in inserters {
        acknowledged.extend(inserter.await.unwrap());
    }
    let moved = inserted(client).await;
    assert!(moved["default"] >= counted["default"], "{moved:?}, and before {counted:?}");
    assert_eq!(moved.get("by_sql"), Some(&1), "{moved:?}");
    eventually!(
        let left = client.count_jobs(unfinished(), 1_000).await.unwrap().counted();
        left == 0, "{left}"
    );
    let ids = sqlx::query_scalar("SELECT id FROM uniqueue.job").fetch_all(client.pool()).await.unwrap();
    let ids: BTreeSet<JobId> = ids.into_iter().map(|id: sqlx::types::Uuid| id.into()).collect();
    assert!(acknowledged.is_subset(&ids), "{:?}", acknowledged.difference(&ids).collect::<Vec<_>>());
    second.stop().await.unwrap();
    // Nothing works the jobs now. One insert of a key claims it, and the next finds it claimed.
    let keyed = || NewJob::from(Task { n: 0 }).unique_key(UniqueKey::raw("key 1").scope(UniqueScope::Active));
    let first = after.insert(keyed().place(PlaceBy::UniqueKey)).await.unwrap().1;
    let second = after.insert(keyed().place(PlaceBy::UniqueKey)).await.unwrap().1;
    assert!(!first.duplicate && second.duplicate && second.id() == first.id(), "{first:?}, {second:?}");
    one_claim_a_key(client).await;
    // The old runner has nothing to stop in.
    let _ = runner.stop().await;
    // The rows may go, and what says that they moved stays.
    sqlx::raw_sql("DROP SCHEMA uniqueue_moved CASCADE").execute(&mut connect(old.url()).await).await.unwrap();
    refuses_as_moved(&before, old.url(), new.url()).await;
    old.stop().await.unwrap();
    new.stop().await.unwrap();
}

/// A dump that was restored, or a server that was forgotten.
#[tokio::test]
async fn a_copy_of_a_place_is_refused_until_it_is_adopted() {
    let server = Postgres::start().await.unwrap();
    let at = |name: &str| server.url().replace("/postgres?", &format!("/{name}?"));
    let map = |url: &str| PlaceMap::new([PlaceAddress::new("a", url).unwrap()]).unwrap();
    let mut admin = connect(server.url()).await;
    sqlx::raw_sql("CREATE DATABASE one").execute(&mut admin).await.unwrap();
    let one = ready(map(&at("one"))).await;
    one.at("a").unwrap().insert(Task { n: 1 }).await.unwrap();
    one.at("a").unwrap().pool().close().await;
    let copying = "CREATE DATABASE two TEMPLATE one";
    // The sessions of the pool end a moment after its close.
    let _ = eventually!(let copied = sqlx::query(copying).execute(&mut admin).await; copied.is_ok(), "{copied:?}");

    let two = open(map(&at("two")));
    let client = two.at("a").unwrap();
    let mut own = connect(&at("two")).await;
    let runner = Runner::new(client.clone()).queue("default", 1).worker(at_once);
    for refused in [
        client.insert(Task { n: 2 }).await.map(drop),
        client.insert(Task { n: 2 }).tx(&mut own).await.map(drop),
        two.check().await.remove(0).1,
        two.init().await.remove(0).1,
        runner.start().await.map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(error.to_string().starts_with("the schema of place a is a copy: "), "{error}");
        assert!(!error.is_retryable());
    }
    let error = sqlx::query("SELECT uniqueue.name_place('a')").execute(&mut own).await.unwrap_err().to_string();
    assert!(error.contains("this schema is a copy of place a"), "{error}");
    let finding = "SELECT severity, sql FROM uniqueue.diagnose() WHERE code = 'place_mismatch'";
    let found = sqlx::query(finding).fetch_one(&mut own).await.unwrap();
    let (severity, remedy): (String, String) = (found.get(0), found.get(1));
    assert_eq!((severity.as_str(), remedy.as_str()), ("critical", "SELECT uniqueue.name_place('a', adopt => true);"));
    two.adopt("a").await.unwrap();
    assert!(sqlx::query(finding).fetch_optional(&mut own).await.unwrap().is_none());
    client.insert(Task { n: 2 }).await.unwrap();
    client.insert(Task { n: 2 }).tx(&mut own).await.unwrap();
    two.check().await.remove(0).1.unwrap();
    // The place from which it was copied knows nothing of it.
    open(map(&at("one"))).check().await.remove(0).1.unwrap();
    server.stop().await.unwrap();
}
