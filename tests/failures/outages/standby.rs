//! A failover to a synchronous standby: every acknowledged insert is there, and client and runner go on.

use std::os::unix::process::CommandExt;

use uniqueue::embedded::PostgresBuilder;

use super::{LONG, scratch, user_of};
use support::by_url::{execute, number, until};
use support::prelude::*;

const JOBS: u32 = 300;

fn server(directory: &Path) -> PostgresBuilder {
    let server = Postgres::builder().data_dir(directory).durability(Durability::Fast);
    server.setting("wal_level", "replica").setting("max_wal_senders", "5").setting("synchronous_commit", "on")
}

/// A standby of the server that follows it, in another directory. `None`: there is no `pg_basebackup` here.
async fn standby_of(primary: &Postgres, directory: &Path) -> Option<Postgres> {
    let program = primary.binaries().join("pg_basebackup");
    if !program.exists() {
        return None;
    }
    let (uid, gid) = user_of(primary);
    let mut copy = Command::new(program);
    copy.args(["-d", primary.url(), "-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"]).arg(directory);
    if super::is_root() {
        copy.uid(uid).gid(gid);
    }
    let copied = copy.current_dir("/").output().unwrap();
    assert!(copied.status.success(), "{copied:?}");
    Some(server(directory).start().await.unwrap())
}

/// Ends the server at once, as a crash of its machine does.
fn crash(server: &Postgres) {
    let status = fs::read_to_string(server.data_dir().join("postmaster.pid")).unwrap();
    let process = status.lines().next().unwrap();
    assert!(Command::new("sh").args(["-c", "kill -s QUIT \"$0\"", process]).status().unwrap().success());
}

#[tokio::test]
async fn a_promoted_standby_has_every_acknowledged_job_and_client_and_runner_go_on() {
    let scratch = scratch("standby");
    let primary = server(&scratch.0.join("primary")).start().await.unwrap();
    let Some(standby) = standby_of(&primary, &scratch.0.join("standby")).await else {
        eprintln!("SKIPPED: no pg_basebackup beside the server");
        return;
    };
    execute(primary.url(), "ALTER SYSTEM SET synchronous_standby_names = '*'").await;
    execute(primary.url(), "SELECT pg_reload_conf()").await;
    until(primary.url(), "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", 1).await;

    let proxy = Proxy::before(primary.url()).await;
    let client = Client::connect(&proxy.url()).await.unwrap();
    client.migrate().await.unwrap();
    let runs = Arc::new(Mutex::new(HashSet::new()));
    let ran = runs.clone();
    let work = move |job: RunningJob<Task>| {
        ran.lock().unwrap().insert(job.args.n);
        async {}
    };
    let runner = quick(&client).lease(Duration::from_secs(2)).worker(work).start().await.unwrap();

    let (tell, mut inserted) = watch::channel(0);
    let inserting = tokio::spawn({
        let client = client.clone();
        async move {
            let mut acknowledged = Vec::new();
            for n in 0..JOBS {
                let key = || UniqueKey::raw(format!("k{n}")).scope(UniqueScope::Exists);
                let began = Instant::now();
                // Without an answer the client cannot know whether the job is in. The key makes the repetition safe.
                loop {
                    let insert = client.insert(Task { n }).unique_key(key());
                    if let Ok(Ok(answer)) = timeout(Duration::from_secs(2), insert.into_future()).await {
                        acknowledged.push(answer.id());
                        break;
                    }
                    assert!(began.elapsed() < LONG, "job {n} cannot be inserted");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                tell.send_replace(n);
            }
            acknowledged
        }
    });
    inserted.wait_for(|n| *n >= JOBS / 3).await.unwrap();

    crash(&primary);
    execute(standby.url(), "SELECT pg_promote()").await;
    proxy.lead_to(standby.url());
    let acknowledged = timeout(LONG, inserting).await.expect("inserts go on").unwrap();

    until(standby.url(), "SELECT count(*) FROM uniqueue.job WHERE state = 'completed'", JOBS.into()).await;
    runner.stop().await.unwrap();
    let kept = "SELECT count(DISTINCT unique_key) * 1000000 + count(*) FROM uniqueue.job";
    assert_eq!(number(standby.url(), kept).await, i64::from(JOBS) * 1_000_001, "one job for each key");
    for id in acknowledged {
        assert!(client.job(id).await.unwrap().is_some(), "{id} was acknowledged");
    }
    assert_eq!(runs.lock().unwrap().len(), JOBS as usize);
    client.pool().close().await;
    standby.stop().await.unwrap();
}
