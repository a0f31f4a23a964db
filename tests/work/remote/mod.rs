//! Remote workers: jobs that are worked by SQL, without a runner of the library.

mod exactness;
mod fetching;
mod finishing;
mod maintaining;
mod reserving;
mod rust;
mod values;

use sqlx::types::Json;

use support::prelude::*;

#[derive(Debug, serde::Deserialize, Job, serde::Serialize)]
#[job(kind = "task")]
struct Task {}

/// A runner of the library, which works another queue.
fn bystander(database: &Database) -> Runner {
    Runner::new(database.client.clone()).queue("unworked", 1).worker(|_: RunningJob<Task>| async {})
}

/// A row of `fetch_jobs`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Fetched {
    id: Uuid,
    run: i32,
    kind: String,
    queue: String,
    args: Value,
    meta: Value,
    attempt: i32,
    crashes: i32,
    errors: Value,
    worker_id: Uuid,
    timeout: Option<String>,
}

/// A row of `finish_jobs`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct Ended {
    id: Uuid,
    run: i32,
    counted: bool,
    state: Option<String>,
}

/// A row of `extend_jobs`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Held {
    id: Uuid,
    held: bool,
    state: Option<String>,
}

/// Rows that are answered as JSON.
fn read<T>(rows: Vec<Json<T>>) -> Vec<T> {
    rows.into_iter().map(|Json(row)| row).collect()
}

/// A process that works jobs by SQL.
#[derive(Clone)]
pub(crate) struct Remote {
    pool: PgPool,
    schema: String,
    name: String,
    queues: Vec<String>,
    kinds: Option<Vec<String>>,
    reserve: &'static str,
    listens: bool,
}

impl Remote {
    pub(crate) fn new(database: &Database, name: &str) -> Self {
        Self {
            pool: database.pool().clone(),
            schema: database.schema.clone(),
            name: name.to_owned(),
            queues: vec!["default".to_owned()],
            kinds: None,
            reserve: "1 minute",
            listens: false,
        }
    }

    fn of_queues(self, queues: &[&str]) -> Self {
        Self { queues: queues.iter().map(|queue| (*queue).to_owned()).collect(), ..self }
    }

    fn of_kinds(self, kinds: &[&str]) -> Self {
        Self { kinds: Some(kinds.iter().map(|kind| (*kind).to_owned()).collect()), ..self }
    }

    fn reserve(self, reserve: &'static str) -> Self {
        Self { reserve, ..self }
    }

    fn sql(&self, text: &str) -> sqlx::AssertSqlSafe<String> {
        sqlx::AssertSqlSafe(text.replace("{schema}", &self.schema))
    }

    async fn try_fetch(&self, count: i32) -> sqlx::Result<Vec<Fetched>> {
        let fetch =
            self.sql("SELECT to_jsonb(f) FROM {schema}.fetch_jobs($1, $2, $3, $4, $5::text::interval, $6) AS f");
        let rows = sqlx::query_scalar(fetch)
            .bind(&self.queues)
            .bind(&self.name)
            .bind(count)
            .bind(&self.kinds)
            .bind(self.reserve)
            .bind(self.listens)
            .fetch_all(&self.pool);
        rows.await.map(read)
    }

    pub(crate) async fn fetch(&self, count: i32) -> Vec<Fetched> {
        self.try_fetch(count).await.unwrap()
    }

    /// The only job there is.
    async fn fetch_one(&self) -> Fetched {
        let mut jobs = self.fetch(2).await;
        assert_eq!(jobs.len(), 1);
        jobs.remove(0)
    }

    /// Ends these jobs, each in the same way: `call` is a function with its arguments after ids and runs.
    async fn try_end(&self, jobs: &[Fetched], call: &str, rest: &str) -> sqlx::Result<Vec<Ended>> {
        let (ids, runs): (Vec<_>, Vec<_>) = jobs.iter().map(|job| (job.id, job.run)).unzip();
        let end = self.sql(&format!("SELECT to_jsonb(e) FROM {{schema}}.{call}($1, $2{rest}) AS e"));
        sqlx::query_scalar(end).bind(ids).bind(runs).fetch_all(&self.pool).await.map(read)
    }

    pub(crate) async fn end(&self, jobs: &[Fetched], call: &str, rest: &str) -> Vec<Ended> {
        self.try_end(jobs, call, rest).await.unwrap()
    }

    /// Ends one job, and answers whether it counted and its state.
    async fn end_one(&self, job: &Fetched, call: &str, rest: &str) -> (bool, String) {
        let ended = self.end(std::slice::from_ref(job), call, rest).await.remove(0);
        assert_eq!((ended.id, ended.run), (job.id, job.run));
        (ended.counted, ended.state.unwrap_or_default())
    }

    async fn complete(&self, job: &Fetched) -> (bool, String) {
        self.end_one(job, "complete_jobs", "").await
    }

    async fn extend(&self, jobs: &[Fetched]) -> Vec<Held> {
        let (ids, runs): (Vec<_>, Vec<_>) = jobs.iter().map(|job| (job.id, job.run)).unzip();
        let extend = self.sql("SELECT to_jsonb(h) FROM {schema}.extend_jobs($1, $2, $3::text::interval) AS h");
        read(sqlx::query_scalar(extend).bind(ids).bind(runs).bind(self.reserve).fetch_all(&self.pool).await.unwrap())
    }

    /// Promotes, rescues and prunes: how many jobs of each.
    async fn maintain(&self) -> (i64, i64, i64) {
        let maintain = self.sql("SELECT promoted, rescued, pruned FROM {schema}.maintain($1)");
        sqlx::query_as(maintain).bind(&self.name).fetch_one(&self.pool).await.unwrap()
    }
}

/// The code of the database's error, and its message.
fn refusal<T: std::fmt::Debug>(answer: sqlx::Result<T>) -> (String, String) {
    let error = answer.unwrap_err();
    let error = error.as_database_error().unwrap_or_else(|| panic!("{error}"));
    (error.code().unwrap().into_owned(), error.message().to_owned())
}

/// Lets the reservations of all running jobs run out.
async fn run_out(database: &Database) {
    database.execute("UPDATE {schema}.job SET reserved_until = now() - interval '1 s' WHERE state = 'running'").await;
}
