//! Jobs a second through the doors of `uniqueue serve` beside the native client, where the time goes, and how soon a job is picked
//! up. A measurement, by hand, on a machine that does nothing else:
//!
//!     cargo test --release -p uniqueue-cli --test it serve::speed -- --ignored --nocapture
//!
//! The database is a throw-away cluster without fsync. Rates of the doors compare with those of the native client of the same run.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use test_support::prelude::*;
use tokio::runtime::Handle;
use uniqueue_remote::{JobResult, Remote, WakeUps};

use super::faktory::{self, address};
use super::ojs::address_of;
use super::{Server, WAIT};
use crate::support::migrated;

const CONNECTIONS: usize = 16;
const JOBS: usize = 8_000;
const BATCH: usize = 100;

/// How many jobs are picked up by an idle worker, and the time between two of them.
const PICKED_UP: usize = 300;
const PAUSE: Duration = Duration::from_millis(10);

/// A connection of HTTP that is kept.
struct Http(BufReader<TcpStream>);

impl Http {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        Self(BufReader::new(stream))
    }

    fn post(&mut self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let head = format!("POST /ojs/v1{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        self.0.get_mut().write_all((head + &body).as_bytes()).unwrap();
        let (mut line, mut length, mut is_fine) = (String::new(), 0, false);
        loop {
            line.clear();
            self.0.read_line(&mut line).unwrap();
            is_fine |= line.starts_with("HTTP/1.1 20");
            match line.to_ascii_lowercase().trim_end().split_once(": ") {
                Some(("content-length", given)) => length = given.parse().unwrap(),
                None if line == "\r\n" => break,
                _ => {}
            }
        }
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer).unwrap();
        let answer = serde_json::from_slice(&answer).unwrap();
        assert!(is_fine, "{answer}");
        answer
    }

    fn fetch(&mut self, queue: &str, worker: &str, count: usize) -> Vec<Value> {
        let wanted = json!({ "queues": [queue], "worker_id": worker, "count": count });
        self.post("/workers/fetch", &wanted)["jobs"].as_array().unwrap().clone()
    }

    fn ack(&mut self, job: &Value, worker: &str) {
        self.post("/workers/ack", &json!({ "job_id": job["id"], "worker_id": worker }));
    }
}

/// The id of a process's parent, and its processor time so far. `None`: it has ended.
fn process(id: u32) -> Option<(u32, Duration)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
    // A tick is a hundredth of a second.
    let ticks = fields[11].parse::<u32>().unwrap() + fields[12].parse::<u32>().unwrap();
    Some((fields[1].parse().unwrap(), Duration::from_millis(10) * ticks))
}

/// The processor time of all backends and services of a server.
fn of_database(postmaster: u32) -> Duration {
    let ids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok());
    ids.filter_map(process).filter(|(parent, _)| *parent == postmaster).map(|(_, time)| time).sum()
}

/// The processes whose time is measured.
struct Processes {
    server: Server,
    postmaster: u32,
}

/// Works on each connection in a thread of its own until `JOBS` jobs are done, and prints how many a second, and the processor time of
/// each job. `each` gets the number of its connection, and takes jobs with [`take`].
fn measure(name: &str, processes: &Processes, each: impl Fn(usize, &AtomicUsize) + Sync) {
    let Processes { server, postmaster } = processes;
    let of = |id| process(id).unwrap().1;
    let times = || [of(std::process::id()), of(server.foreground.id()), of_database(*postmaster)];
    let (left, before, began) = (AtomicUsize::new(JOBS), times(), Instant::now());
    std::thread::scope(|scope| {
        for number in 0..CONNECTIONS {
            let (each, left) = (&each, &left);
            scope.spawn(move || each(number, left));
        }
    });
    let rate = JOBS as f64 / began.elapsed().as_secs_f64();
    let of_each = |(after, before): (Duration, Duration)| after.saturating_sub(before).as_micros() as usize / JOBS;
    let [client, door, database] = times().into_iter().zip(before).map(of_each).collect::<Vec<_>>().try_into().unwrap();
    println!("{name:<34}{rate:>9.0}/s{client:>9} µs client{door:>7} µs door{database:>7} µs database");
}

/// Takes at most `most` of the jobs that are left, and returns their number.
fn take(left: &AtomicUsize, most: usize) -> usize {
    let taken =
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| (left > 0).then(|| left.saturating_sub(most)));
    taken.map_or(0, |before| before.min(most))
}

fn print_pickup(name: &str, mut lengths: Vec<Duration>) {
    lengths.sort_unstable();
    let at = |share: f64| lengths[((lengths.len() - 1) as f64 * share) as usize].as_secs_f64() * 1_000.0;
    println!("{name:<34}pickup p50 {:>6.2} ms, p99 {:>6.2} ms", at(0.5), at(0.99));
}

/// Inserts jobs one after another while a worker waits. `next` waits for a job and returns when it came.
fn measure_pickup(name: &str, mut insert: impl FnMut(usize), next: impl FnMut() -> Instant + Send) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let runtime = Handle::current();
    let lengths = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A listening connection is dropped within a runtime.
            let _entered = runtime.enter();
            let mut next = next;
            for _ in 0..PICKED_UP {
                sender.send(next()).unwrap();
            }
        });
        (0..PICKED_UP)
            .map(|number| {
                std::thread::sleep(PAUSE);
                let sent_at = Instant::now();
                insert(number);
                receiver.recv_timeout(WAIT).unwrap().saturating_duration_since(sent_at)
            })
            .collect()
    });
    print_pickup(name, lengths);
}

fn push(client: &mut faktory::Client, queue: &str, jid: &str) {
    let job = json!({ "jid": jid, "jobtype": "t", "args": [], "queue": queue });
    assert_eq!(client.send(&format!("PUSH {job}")).unwrap(), "+OK");
}

fn work_one(client: &mut faktory::Client, queue: &str) -> Instant {
    let jid = loop {
        if let Some(jid) = client.fetch_from(queue).unwrap() {
            break jid;
        }
    };
    let at = Instant::now();
    assert_eq!(client.send(&format!("ACK {{\"jid\":\"{jid}\"}}")).unwrap(), "+OK");
    at
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn jobs_a_second_through_each_door() {
    let url = migrated("uniqueue").await;
    let doors = ["--faktory", "127.0.0.1:0", "--ojs", "127.0.0.1:0", "--database-url", &url];
    let server = Server::start_on(&doors);
    let client = Client::connect(&url).await.unwrap();
    let runtime = Handle::current();
    let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(client.pool()).await.unwrap();
    let postmaster = process(backend.unsigned_abs()).unwrap().0;
    let processes = Processes { server, postmaster };
    tokio::task::spawn_blocking(move || measure_all(&processes, &client, &runtime)).await.unwrap();
}

fn measure_all(processes: &Processes, client: &Client, runtime: &Handle) {
    let (faktory, ojs) = (address(&processes.server), address_of(&processes.server));
    let native = |queue: &str| NewJob::new("t", &json!([])).queue(queue);
    measure("native: insert", processes, |_, left| {
        while take(left, 1) > 0 {
            runtime.block_on(async { client.insert(native("native")).await }).unwrap();
        }
    });
    measure("native: fetch and complete", processes, |number, left| {
        while take(left, 1) > 0 {
            runtime.block_on(async {
                let mut jobs = Vec::new();
                while jobs.is_empty() {
                    jobs = Remote::new(client).fetch_jobs(["native"], format!("w{number}")).await.unwrap();
                }
                Remote::new(client).finish_jobs(jobs.iter().map(|job| JobResult::complete(job.run))).await.unwrap();
            });
        }
    });
    measure("native: insert by 100", processes, |_, left| {
        while let count @ 1.. = take(left, BATCH) {
            let jobs: Vec<_> = (0..count).map(|_| native("native-many")).collect();
            runtime.block_on(async { client.insert_many(jobs).await }).unwrap();
        }
    });
    measure("native: fetch and complete by 100", processes, |number, left| {
        while let mut wanted @ 1.. = take(left, BATCH) {
            while wanted > 0 {
                let count = u32::try_from(wanted).unwrap();
                wanted -= runtime.block_on(async {
                    let jobs = Remote::new(client)
                        .fetch_jobs(["native-many"], format!("w{number}"))
                        .count(count)
                        .await
                        .unwrap();
                    Remote::new(client)
                        .finish_jobs(jobs.iter().map(|job| JobResult::complete(job.run)))
                        .await
                        .unwrap()
                        .len()
                });
            }
        }
    });
    measure("Faktory: PUSH", processes, |number, left| {
        let mut client = faktory::Client::connect(&faktory, None).unwrap();
        for job in 0.. {
            if take(left, 1) == 0 {
                break;
            }
            push(&mut client, "default", &format!("job-{number}-{job:06}"));
        }
    });
    measure("Faktory: FETCH and ACK", processes, |_, left| {
        let mut client = faktory::Client::connect(&faktory, None).unwrap();
        while take(left, 1) > 0 {
            work_one(&mut client, "default");
        }
    });
    measure("OJS: enqueue", processes, |_, left| {
        let mut client = Http::connect(&ojs);
        while take(left, 1) > 0 {
            client.post("/jobs", &json!({ "type": "t", "args": [], "queue": "ojs" }));
        }
    });
    measure("OJS: fetch and ack", processes, |number, left| {
        let (mut client, worker) = (Http::connect(&ojs), format!("w{number}"));
        while take(left, 1) > 0 {
            let job = loop {
                if let Some(job) = client.fetch("ojs", &worker, 1).pop() {
                    break job;
                }
            };
            client.ack(&job, &worker);
        }
    });
    measure("OJS: enqueue by 100", processes, |_, left| {
        let mut client = Http::connect(&ojs);
        while let count @ 1.. = take(left, BATCH) {
            let jobs = vec![json!({ "type": "t", "args": [], "queue": "ojs-many" }); count];
            client.post("/jobs/batch", &json!({ "jobs": jobs }));
        }
    });
    measure("OJS: fetch by 100, ack", processes, |number, left| {
        let (mut client, worker) = (Http::connect(&ojs), format!("w{number}"));
        while let mut wanted @ 1.. = take(left, BATCH) {
            while wanted > 0 {
                let jobs = client.fetch("ojs-many", &worker, wanted);
                wanted -= jobs.len();
                jobs.iter().for_each(|job| client.ack(job, &worker));
            }
        }
    });
    measure_pickups(client, runtime, &faktory, &ojs);
    let done = runtime.block_on(async { client.count_jobs(uniqueue::JobFilter::all(), u32::MAX).await }).unwrap();
    assert_eq!(done.counted(), (5 * JOBS + 3 * PICKED_UP) as u64);
}

fn measure_pickups(client: &Client, runtime: &Handle, faktory: &str, ojs: &str) {
    let insert = |queue: &'static str| {
        move |_: usize| {
            drop(runtime.block_on(async { client.insert(NewJob::new("t", &json!([])).queue(queue)).await }).unwrap())
        }
    };
    let mut wake_ups = WakeUps::new(client);
    measure_pickup("native: fetch that listens", insert("waiting"), move || {
        runtime.block_on(async {
            loop {
                let jobs = Remote::new(client).fetch_jobs(["waiting"], "w").listens().await.unwrap();
                if let Some(job) = jobs.first() {
                    let at = Instant::now();
                    Remote::new(client).finish_jobs([JobResult::complete(job.run)]).await.unwrap();
                    return at;
                }
                let _ = tokio::time::timeout(Duration::from_secs(1), wake_ups.next()).await;
            }
        })
    });
    let mut pushing = faktory::Client::connect(faktory, None).unwrap();
    let mut worker = faktory::Client::connect(faktory, None).unwrap();
    let push_one = |number: usize| push(&mut pushing, "idle", &format!("picked-{number:06}"));
    measure_pickup("Faktory: FETCH that waits", push_one, move || work_one(&mut worker, "idle"));
    let (mut enqueuing, mut worker) = (Http::connect(ojs), Http::connect(ojs));
    let enqueue = |_: usize| drop(enqueuing.post("/jobs", &json!({ "type": "t", "args": [], "queue": "idle-ojs" })));
    measure_pickup("OJS: fetch again at once", enqueue, move || {
        loop {
            if let Some(job) = worker.fetch("idle-ojs", "w", 1).pop() {
                let at = Instant::now();
                worker.ack(&job, "w");
                return at;
            }
        }
    });
}
