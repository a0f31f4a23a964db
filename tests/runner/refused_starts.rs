//! Jobs whose start the database refuses, for whatever reason, and queues whose fetch fails.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};

use support::prelude::*;

const LEFT: &str = "SELECT string_agg(state || ' ' || attempt, ', ') FROM {schema}.job WHERE state <> 'completed'";

/// Inserts jobs of some numbers into queues.
async fn insert(database: &Database, queue: &str, numbers: std::ops::Range<u32>) {
    let jobs = numbers.map(|n| NewJob::from(Task { n }).queue(queue));
    database.client.insert_many(jobs).await.unwrap();
}

fn of_queues(client: &Client, queues: &[&str], lease: u64) -> Runner {
    let mut runner = Runner::new(client.clone()).lease(Duration::from_secs(lease));
    for queue in queues {
        runner = runner.queue(*queue, 50);
    }
    runner.poll_interval(Duration::from_millis(20)).worker(at_once)
}

/// A trigger that does something when a job about which the condition is true is started.
async fn at_start(database: &Database, about: &str, what: &str) {
    let about = format!("NEW.state = 'running' AND OLD.state <> 'running' AND ({about})");
    database.trigger("BEFORE UPDATE", &about, what).await;
}

async fn completed(database: &Database, jobs: i64) {
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1", jobs).await;
}

#[tokio::test]
async fn a_job_whose_start_the_database_refuses_holds_up_no_other_and_starts_when_it_may() {
    let about = "NEW.state = 'running' AND NEW.args ->> 'n' = '13'";
    let refuse = |kind: &str, what: &str, when: &str| {
        format!(
            "CREATE FUNCTION {{schema}}.not_today() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {what}; END $$;
            CREATE {kind} UPDATE ON {{schema}}.job {when} FOR EACH ROW WHEN ({about}) EXECUTE FUNCTION {{schema}}.not_today()"
        )
    };
    let error = "RAISE EXCEPTION 'not today'";
    let drop = "DROP FUNCTION {schema}.not_today CASCADE";
    for (refuse, allow) in [
        (refuse("TRIGGER refuse BEFORE", error, ""), drop),
        // PL/pgSQL does not catch it as any other error.
        (refuse("TRIGGER refuse BEFORE", "ASSERT false, 'not today'", ""), drop),
        // At the commit.
        (refuse("CONSTRAINT TRIGGER refuse AFTER", error, "DEFERRABLE INITIALLY DEFERRED"), drop),
        (
            "ALTER TABLE {schema}.job ADD CONSTRAINT mine CHECK (args ->> 'n' <> '13') NOT VALID".to_owned(),
            "ALTER TABLE {schema}.job DROP CONSTRAINT mine",
        ),
    ] {
        let database = Database::new().await;
        insert(&database, "a", 0..30).await;
        insert(&database, "b", 100..110).await;
        database.execute(&refuse).await;
        database.start(of_queues(&database.client, &["a", "b"], 20)).await;
        completed(&database, 39).await;
        insert(&database, "a", 30..35).await;
        completed(&database, 44).await;
        assert_eq!(database.text(LEFT).await, "available 0", "{refuse}");
        database.execute(allow).await;
        completed(&database, 45).await;
        database.end().await;
    }
}

#[support::test]
async fn a_job_whose_start_hangs_is_left_out_within_a_lease(database: Database) {
    const LEASE: u64 = 4;
    at_start(&database, "NEW.args ->> 'n' = '13'", "PERFORM pg_sleep(600);").await;
    insert(&database, "a", 0..30).await;
    insert(&database, "b", 100..110).await;
    database.start(of_queues(&database.client, &["a", "b"], LEASE)).await;
    completed(&database, 39).await;
    let set_aside_after = "SELECT extract(epoch FROM max(finalized_at) - min(created_at))::bigint FROM {schema}.job";
    let after = database.number(set_aside_after).await;
    println!("the others ran within {after} s, with a lease of {LEASE} s");
    insert(&database, "a", 30..35).await;
    completed(&database, 44).await;
    assert_eq!(database.text(LEFT).await, "available 0");
}

#[support::test]
async fn a_job_of_a_group_whose_start_is_refused_holds_up_no_other_group(database: Database) {
    at_start(&database, "NEW.args ->> 'n' = '1'", "RAISE EXCEPTION 'not today';").await;
    let jobs = (0..20).map(|n| NewJob::from(Task { n }).queue("a").group(format!("g{}", n % 10)));
    database.client.insert_many(jobs).await.unwrap();
    database.start(of_queues(&database.client, &["a"], 20)).await;
    completed(&database, 19).await;
    assert_eq!(database.text(LEFT).await, "available 0");
}

#[support::test]
async fn a_queue_of_which_every_start_is_refused_holds_up_no_other(database: Database) {
    at_start(&database, "NEW.queue = 'a'", "RAISE EXCEPTION 'not today';").await;
    insert(&database, "a", 0..1_500).await;
    insert(&database, "b", 2_000..2_040).await;
    database.start(of_queues(&database.client, &["a", "b"], 20)).await;
    completed(&database, 40).await;
    insert(&database, "b", 3_000..3_040).await;
    completed(&database, 80).await;
}

/// The fetch of a queue fails, and none of its jobs is the reason.
#[support::test]
async fn a_queue_whose_fetch_fails_holds_up_no_other(database: Database) {
    database.client.queue("a").limit(Some(1)).await.unwrap();
    let refuse = "CREATE FUNCTION {schema}._refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'not today'; END $$";
    database.execute(refuse).await;
    let trigger = "CREATE TRIGGER refuse BEFORE UPDATE ON {schema}.queue FOR EACH ROW WHEN (NEW.name = 'a')
        EXECUTE FUNCTION {schema}._refuse()";
    let rate = "UPDATE {schema}.queue SET rate_count = 100, rate_period = '1 s', rate_burst = 100,
        rate_full_at = clock_timestamp() WHERE name = 'a'";
    database.execute(rate).await;
    database.execute(trigger).await;
    insert(&database, "a", 0..5).await;
    insert(&database, "b", 100..140).await;
    insert(&database, "c", 200..240).await;
    database.start(of_queues(&database.client, &["a", "b", "c"], 20)).await;
    completed(&database, 80).await;
    insert(&database, "b", 300..340).await;
    completed(&database, 120).await;
    database.execute("DROP TRIGGER refuse ON {schema}.queue").await;
    completed(&database, 125).await;
}

#[tokio::test]
async fn a_limited_queue_is_worked_whatever_the_role_s_default_isolation_is() {
    for level in ["repeatable read", "serializable"] {
        let database = Database::new().await;
        database.client.queue("a").limit(Some(3)).await.unwrap();
        insert(&database, "a", 0..20).await;
        insert(&database, "b", 100..120).await;
        let client =
            database.client_with(16, |options| options.options([("default_transaction_isolation", level)])).await;
        database.start(of_queues(&client, &["a", "b"], 20)).await;
        completed(&database, 40).await;
        database.end().await;
    }
}

/// Passes the server's answers on at so many bytes a second at most.
async fn slow_network(url: &str, bytes_per_second: usize) -> String {
    let (_, home) = url.split_once("host=").expect("a socket's directory");
    let port = url.split_once("localhost:").unwrap().1.split_once('/').unwrap().0;
    let home = home.split('&').next().unwrap().replace("%2F", "/");
    let socket = PathBuf::from(home).join(format!(".s.PGSQL.{port}"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = UnixStream::connect(&socket).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
            tokio::spawn(async move {
                let mut buffer = vec![0; 65_536];
                while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
                    tokio::time::sleep(Duration::from_secs(1).mul_f64(read as f64 / bytes_per_second as f64)).await;
                    if to_client.write_all(&buffer[..read]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    let database = url.split_once(&format!(":{port}/")).unwrap().1.split('?').next().unwrap();
    format!("postgres://postgres@{own}/{database}")
}

#[support::test]
async fn many_large_jobs_on_a_slow_network_hold_up_small_ones_for_less_than_a_lease(database: Database) {
    const LEASE: u64 = 4;
    insert(&database, "a", 0..24).await;
    // 48 MB, at 8 MB/s: three times what a fetch may take. Each alone comes in a quarter of a second.
    let large = "UPDATE {schema}.job SET args = args || jsonb_build_object('pad', repeat('x', 2000000))";
    database.execute(large).await;
    insert(&database, "a", 24..30).await;
    insert(&database, "b", 100..110).await;
    let pool = PgPoolOptions::new().connect_lazy_with(slow_network(&database.url, 8_000_000).await.parse().unwrap());
    let began = Instant::now();
    database.start(of_queues(&database.client_over(pool), &["a", "b"], LEASE)).await;
    let small = "SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND length(args::text) < 1000";
    database.until(small, 16).await;
    println!("the small ones ran within {:.1?}, with a lease of {LEASE} s", began.elapsed());
    eventually!(
        database.number("SELECT count(*) FROM {schema}.job WHERE state = 'completed'").await >= 40,
        "the large ones stand still"
    );
    println!("all after {:.1?}", began.elapsed());
}
