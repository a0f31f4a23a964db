//! The cost of places: inserts and work through a plain client, and through maps of 1, 2, 4 and 8 places of one database.
//!
//! `cargo bench --bench places` starts a PostgreSQL of its own and measures the five in turns. It prints the processor time
//! of this process for a job, and jobs a second: the median of the rounds. The router's own cost is
//! the difference between a map and the plain client.

#![allow(missing_docs, clippy::expect_used)]

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use uniqueue::embedded::{Durability, Postgres};
use uniqueue::{
    Client, Job, JobFilter, JobState, NewJob, PlaceAddress, PlaceMap, Places, Runner, RunningJob, SchemaName,
};

const ROUNDS: usize = 5;
/// How many places the maps have. 0: a plain client.
const MAPS: [usize; 5] = [0, 1, 2, 4, 8];
const TASKS: u64 = 16;
const SINGLE: u64 = 8_000;
const BULK: u64 = 100_000;
const BATCH: u64 = 1_000;
const SLOTS: usize = 200;
const COLUMNS: [&str; 4] = ["insert", "insert with tx", "insert_many", "work"];

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "bench.place", place = "n")]
struct Task {
    n: String,
}

fn task(n: u64) -> Task {
    Task { n: n.to_string() }
}

/// A plain client, or places.
enum Subject {
    Plain(Client),
    Map(Places),
}

impl Subject {
    fn clients(&self) -> Vec<Client> {
        match self {
            Self::Plain(client) => vec![client.clone()],
            Self::Map(places) => places.iter().map(|(_, client)| client.clone()).collect(),
        }
    }

    async fn insert(&self, n: u64) {
        match self {
            Self::Plain(client) => drop(client.insert(task(n)).await.expect("an insert")),
            Self::Map(places) => drop(places.insert(task(n)).await.expect("an insert")),
        }
    }

    /// Inserts in a transaction of the caller's.
    async fn insert_in_transaction(&self, n: u64) {
        let mut job = NewJob::from(task(n));
        let client = match self {
            Self::Plain(client) => client,
            Self::Map(places) => places.of_job(&mut job).expect("a place"),
        };
        let mut tx = client.pool().begin().await.expect("a transaction");
        client.insert(job).tx(&mut tx).await.expect("an insert");
        tx.commit().await.expect("a commit");
    }

    async fn insert_many(&self, from: u64) {
        let jobs = (from..from + BATCH).map(|n| NewJob::from(task(n)));
        match self {
            Self::Plain(client) => drop(client.insert_many(jobs).await.expect("a batch")),
            Self::Map(places) => {
                for answer in places.insert_many(jobs).await.expect("a batch") {
                    answer.inserted.expect("a part");
                }
            }
        }
    }

    /// Works all jobs.
    async fn work(&self) {
        let build = |client: Client| Runner::new(client).queue("default", SLOTS).worker(async |_: RunningJob<Task>| {});
        match self {
            Self::Plain(client) => {
                let runner = build(client.clone()).start().await.expect("a runner");
                until_done(&self.clients()).await;
                runner.stop().await.expect("a stop");
            }
            Self::Map(places) => {
                let runner = places.runner(build).start().await.expect("runners");
                until_done(&self.clients()).await;
                runner.stop().await.expect("a stop");
            }
        }
    }
}

async fn until_done(clients: &[Client]) {
    let unfinished = JobFilter::new().states([JobState::Available, JobState::Running]);
    for client in clients {
        while client.count_jobs(unfinished.clone(), 1).await.expect("a count").counted() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The processor time of this process, in user and system mode.
fn own() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<u32>().expect("a number");
    Duration::from_millis(10) * (ticks(11) + ticks(12))
}

/// Microseconds of this process for a job, and jobs a second.
#[derive(Clone, Copy, Default)]
struct Cost {
    micros: f64,
    rate: f64,
}

async fn measured(jobs: u64, work: impl Future<Output = ()>) -> Cost {
    let (before, began) = (own(), Instant::now());
    work.await;
    let micros = (own() - before).as_secs_f64() * 1e6 / jobs as f64;
    Cost { micros, rate: jobs as f64 / began.elapsed().as_secs_f64() }
}

/// Inserts jobs one by one, in several tasks.
async fn insert_singly(subject: &Arc<Subject>, is_in_transaction: bool) {
    let mut tasks = JoinSet::new();
    for at in 0..TASKS {
        let subject = Arc::clone(subject);
        tasks.spawn(async move {
            for n in at * SINGLE..at * SINGLE + SINGLE / TASKS {
                match is_in_transaction {
                    true => subject.insert_in_transaction(n).await,
                    false => subject.insert(n).await,
                }
            }
        });
    }
    tasks.join_all().await;
}

async fn round(subject: &Arc<Subject>) -> [Cost; COLUMNS.len()] {
    for client in subject.clients() {
        let empty = format!("TRUNCATE {}.job CASCADE", client.schema().quoted());
        sqlx::query(sqlx::AssertSqlSafe(empty)).execute(client.pool()).await.expect("an empty table");
    }
    let single = measured(SINGLE, insert_singly(subject, false)).await;
    let in_transaction = measured(SINGLE, insert_singly(subject, true)).await;
    let bulk = measured(BULK, async {
        for from in (0..BULK).step_by(BATCH as usize) {
            subject.insert_many(from).await;
        }
    });
    let bulk = bulk.await;
    [single, in_transaction, bulk, measured(2 * SINGLE + BULK, subject.work()).await]
}

async fn subject(url: &str, places: usize) -> Subject {
    let schema = |n: usize| SchemaName::new(format!("map{places}_{n}")).expect("a name");
    if places == 0 {
        let client = Client::builder().schema(schema(0)).connect(url).await.expect("a client");
        client.migrate().await.expect("a schema");
        return Subject::Plain(client);
    }
    let names: Vec<String> = (0..places).map(|n| format!("p{n}")).collect();
    let address = |n: usize| PlaceAddress::new(&names[n], url).expect("a place").schema(schema(n));
    let map = PlaceMap::new((0..places).map(address)).expect("a map").hashed(&names).expect("a list");
    let places = Places::new(map);
    for (_, migrated) in places.migrate().await {
        migrated.expect("a schema");
    }
    for (_, named) in places.init().await {
        named.expect("a name");
    }
    Subject::Map(places)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::main]
async fn main() {
    let server =
        Postgres::builder().durability(Durability::Durable).max_connections(200).start().await.expect("a server");
    let mut subjects = Vec::new();
    for places in MAPS {
        subjects.push(Arc::new(subject(server.url(), places).await));
    }
    let mut costs = vec![Vec::new(); MAPS.len()];
    for number in 0..=ROUNDS {
        for (subject, costs) in subjects.iter().zip(&mut costs) {
            let cost = round(subject).await;
            // The first round warms up.
            if number > 0 {
                costs.push(cost);
            }
        }
    }
    println!("microseconds of this process a job, and jobs a second; medians of {ROUNDS} rounds");
    println!("{:<8} {}", "places", COLUMNS.map(|column| format!("{column:>20}")).join(" "));
    for (places, costs) in MAPS.into_iter().zip(costs) {
        let name = if places == 0 { "plain".to_owned() } else { places.to_string() };
        let cells = (0..COLUMNS.len()).map(|at| {
            let of = |value: fn(&Cost) -> f64| median(costs.iter().map(|cost| value(&cost[at])).collect());
            format!("{:>11.2} {:>8.0}", of(|cost| cost.micros), of(|cost| cost.rate))
        });
        println!("{name:<8} {}", cells.collect::<Vec<_>>().join(" "));
    }
    server.stop().await.expect("a stop");
}
