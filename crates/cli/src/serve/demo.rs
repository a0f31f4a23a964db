//! `uniqueue serve --demo`: a throw-away database in which jobs of all kinds live.
//!
//! One task inserts, one runner works. Some jobs succeed, some fail, some never end well, so that every page has something
//! to show: duplicates, retries, discarded jobs, a paused queue, a limited queue, groups that wait for
//! their turn, and a queue without a runner.

use serde::Deserialize;
use tokio_util::task::AbortOnDropHandle;
use uniqueue::embedded::Postgres;
use uniqueue::{
    BoxError, Job, OnConflict, PeriodicJob, QueueChanges, RetryPolicy, Runner, RunnerHandle, RunningJob, UniqueKey,
    UniquePolicy, UniqueScope, WorkerOptions,
};

use crate::prelude::*;

/// The time between two rounds of inserts.
const EVERY: Duration = Duration::from_millis(500);

/// The number of rounds between two bursts of entries. An account works its burst off within them.
const BURST: u32 = 12;

/// How long an entry takes.
const POSTING: Duration = Duration::from_millis(1_200);

/// Waiting jobs at the start.
const BACKLOG: u32 = 400;

/// How many jobs of each queue run at once.
const SLOTS: usize = 4;

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "email.send", queue = "emails")]
struct SendEmail {
    to: String,
    number: u32,
}

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "report.build", queue = "reports")]
struct BuildReport {
    tenant: u32,
}

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "webhook.deliver", queue = "webhooks")]
struct DeliverWebhook {
    url: String,
    number: u32,
}

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "ledger.post", queue = "ledger")]
struct PostEntry {
    account: u32,
    cents: u32,
}

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "cache.sweep")]
struct SweepCache {}

/// The database, its runner and the task that inserts.
pub(super) struct Demo {
    postgres: Postgres,
    client: Client,
    runner: RunnerHandle,
    inserts: AbortOnDropHandle<()>,
}

impl Demo {
    /// Starts it. The first jobs are there when this returns.
    pub(super) async fn start(arguments: &DatabaseArguments) -> Result<Self, Failure> {
        let postgres = Postgres::start().await?;
        let client = Client::builder().schema(arguments.schema.clone()).connect(postgres.url()).await?;
        client.migrate().await?;
        first_jobs(&client).await?;
        let runner = runner(&client).start().await?;
        let inserts = AbortOnDropHandle::new(tokio::spawn(insert_all(client.clone())));
        Ok(Self { postgres, client, runner, inserts })
    }

    pub(super) fn url(&self) -> &str {
        self.postgres.url()
    }

    /// Stops the work, then the database.
    pub(super) async fn stop(self) -> Result<(), Failure> {
        let Self { postgres, client, runner, inserts } = self;
        drop(inserts);
        runner.stop_within(Duration::ZERO).await?;
        client.pool().close().await;
        Ok(postgres.stop().await?)
    }
}

fn runner(client: &Client) -> Runner {
    let retries = RetryPolicy::fixed(Duration::from_secs(8));
    Runner::new(client.clone())
        .name("demo")
        .queue("default", SLOTS)
        .queue("emails", SLOTS)
        .queue("reports", SLOTS)
        .queue("webhooks", SLOTS)
        .queue("ledger", SLOTS)
        .queue("imports", SLOTS)
        .retry_policy(retries)
        .promote_interval(Duration::from_millis(500))
        .worker(send_email)
        .worker_with(build_report, WorkerOptions::new().timeout(Duration::from_secs(60)))
        .worker(deliver_webhook)
        .worker(|_: RunningJob<PostEntry>| async { tokio::time::sleep(POSTING).await })
        .worker(|_: RunningJob<SweepCache>| async { tokio::time::sleep(Duration::from_millis(300)).await })
        .periodic(PeriodicJob::every("sweep", Duration::from_secs(60), SweepCache {}))
}

async fn send_email(job: RunningJob<SendEmail>) -> Result<(), BoxError> {
    tokio::time::sleep(Duration::from_millis(u64::from(40 + job.args.number * 37 % 400))).await;
    match job.args.number.is_multiple_of(11) && job.attempt() < 3 {
        true => Err(format!("451 4.3.0 {}: try again later", job.args.to).into()),
        false => Ok(()),
    }
}

async fn build_report(job: RunningJob<BuildReport>) -> Result<(), BoxError> {
    for page in 1..=20_u32 {
        tokio::time::sleep(Duration::from_millis(u64::from(100 + job.args.tenant * 30))).await;
        job.progress(json!({ "page": page, "of": 20 }));
    }
    Ok(())
}

async fn deliver_webhook(job: RunningJob<DeliverWebhook>) -> Result<(), BoxError> {
    tokio::time::sleep(Duration::from_millis(250)).await;
    match job.args.number % 3 {
        0 => Err(format!("{} answered 503 Service Unavailable", job.args.url).into()),
        _ => Ok(()),
    }
}

fn email(number: u32) -> NewJob {
    NewJob::from(SendEmail { to: format!("user{}@example.com", number % 97), number })
}

/// A report is unique for its tenant while it waits or runs.
fn report(tenant: u32) -> NewJob {
    NewJob::from(BuildReport { tenant }).unique(UniquePolicy::new().scope(UniqueScope::Active))
}

fn webhook(number: u32) -> NewJob {
    let url = format!("https://hooks.example.com/{}", number % 5);
    NewJob::from(DeliverWebhook { url: url.clone(), number }).max_attempts(3).group(url)
}

/// Entries of accounts come in bursts, so that most of the time one waits for another of its account.
fn entries(round: u32) -> Vec<NewJob> {
    let count = if round.is_multiple_of(BURST) { 6 } else { 0 };
    let entry = |n| {
        let account = n / 4 + 1;
        NewJob::from(PostEntry { account, cents: round.wrapping_mul(100).wrapping_add(n) })
            .group(format!("account:{account}"))
            .in_order()
    };
    (0..count).map(entry).collect()
}

/// Settings, a backlog, and one job of each state that work does not make.
async fn first_jobs(client: &Client) -> Result<(), Failure> {
    client.queue("imports").pause().await?;
    client.queue("reports").limit(Some(2)).await?;
    client.queue("webhooks").set(QueueChanges::new().group_limit(Some(1)).fair(true)).await?;
    Admin::new(client).audit_duplicates("report.build", None).await?;
    let mut jobs: Vec<NewJob> = (0..BACKLOG).map(email).collect();
    jobs.extend(entries(0));
    jobs.extend(
        (0..30).map(|n| NewJob::new("file.import", &json!({ "path": format!("in/{n}.csv") })).queue("imports")),
    );
    jobs.extend((0..5).map(|n| NewJob::new("thumbnail.make", &json!({ "image": n })).queue("images")));
    let later = |n: u64| Duration::from_secs(60 * (n + 1));
    jobs.extend((0..12).map(|n| email(1_000 + n).scheduled_in(later(u64::from(n)))));
    jobs.extend((0..3).map(|n| NewJob::new("invoice.pay", &json!({ "invoice": 4_711 + n })).pending()));
    let key = UniqueKey::raw("deploy:production").states(JobState::ALL).on_conflict(OnConflict::Ignore);
    jobs.push(NewJob::new("deploy.run", &json!({ "commit": "4f1c2aa" })).queue("deploys").unique_key(key));
    client.insert_many(jobs).await?;
    Ok(())
}

/// Inserts jobs until it is aborted.
async fn insert_all(client: Client) {
    let mut number = 0_u32;
    loop {
        number = number.wrapping_add(1);
        let mut jobs: Vec<NewJob> = (0..3).map(|n| email(number.wrapping_mul(3).wrapping_add(n))).collect();
        // Six tenants ask far more often than a report takes, so most of these inserts are duplicates.
        jobs.push(report(number % 6));
        jobs.extend(entries(number));
        if number.is_multiple_of(2) {
            jobs.push(webhook(number));
        }
        if let Err(error) = client.insert_many(jobs).await {
            tracing::warn!(%error, "the demo could not insert");
        }
        tokio::time::sleep(EVERY).await;
    }
}
