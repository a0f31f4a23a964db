//! One queue over languages: Rust, Python, Node and plain SQL insert the same job and get one, and share the work.

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use uniqueue::testing::{self, Database};

use super::suites::{KIND, QUEUE, database, execute, languages, number};
use support::prelude::*;

const PYTHON: &str = r#"
import os, psycopg, uniqueue
with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    print(uniqueue.Client(connection).insert("share", {"order": 7, "é": 1.0}, queue="shared", unique={"keys": ["args"]}).id)
"#;

const NODE: &str = r#"
import pg from "pg";
import { Client } from "uniqueue";
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const options = { queue: "shared", unique: { keys: ["args"] } };
console.log((await new Client(pool).insert("share", { "e\u0301": 1, order: 7 }, options)).id);
await pool.end();
"#;

const SQL: &str = r#"
SELECT id::text FROM uniqueue.insert_job('share', '{"é": 1.00, "order": 7}', 'shared', unique_policy => '{"keys": ["args"]}')
"#;

/// Inserts the same job in each language. Answers with the ids.
async fn insert_the_same_job(database: &Database) -> Vec<String> {
    let policy = UniquePolicy::new().by_args();
    let job = NewJob::new(KIND, &json!({"order": 7, "é": 1})).queue(QUEUE).unique(policy);
    let mut ids = vec![database.client().insert(job).await.unwrap().id().to_string()];
    ids.push(sqlx::query_scalar(SQL).fetch_one(database.pool()).await.unwrap());
    for language in languages() {
        let mut program = language.program(PYTHON, NODE);
        program.env("DATABASE_URL", database.url());
        let output = spawn_blocking(move || program.output().unwrap()).await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        ids.push(String::from_utf8(output.stdout).unwrap().trim().to_owned());
    }
    ids
}

#[support::test]
async fn every_language_inserts_the_same_job_and_gets_one(database: testing::Database) {
    let ids = insert_the_same_job(&database).await;
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(number(&database, "SELECT count(*) FROM uniqueue.job").await, 1);
}

const PYTHON_CROWD: &str = r#"
import os, threading, psycopg, uniqueue
def insert():
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        print(uniqueue.Client(connection).insert("invoice", {"order": 7}).id)
threads = [threading.Thread(target=insert) for _ in range(25)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"#;

const NODE_CROWD: &str = r#"
import pg from "pg";
import { Client } from "uniqueue";
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 25 });
const client = new Client(pool);
await Promise.all(Array.from({ length: 25 }, async () => console.log((await client.insert("invoice", { order: 7 })).id)));
await pool.end();
"#;

#[support::test]
async fn hundred_producers_that_name_only_kind_and_args_make_one_job(database: testing::Database) {
    let register =
        r#"SELECT uniqueue.register_kind('invoice', queue => 'mail', unique_policy => '{"keys": ["args"]}')"#;
    execute(&database, register).await;
    let programs = languages().into_iter().map(|language| {
        let mut program = language.program(PYTHON_CROWD, NODE_CROWD);
        program.env("DATABASE_URL", database.url());
        spawn_blocking(move || program.output().unwrap())
    });
    let programs: Vec<_> = programs.collect();
    let (client, pool) = (database.client().clone(), database.pool().clone());
    let mut rust = JoinSet::new();
    for _ in 0..25 {
        let client = client.clone();
        rust.spawn(async move {
            client
                .insert(client.fill_in(NewJob::new("invoice", &json!({"order": 7}))).await.unwrap())
                .await
                .unwrap()
                .id()
        });
    }
    for _ in 0..25 {
        let insert = r#"SELECT 1 FROM uniqueue.insert_job('invoice', '{"order": 7}')"#;
        sqlx::query(insert).execute(&pool).await.unwrap();
    }
    while let Some(inserted) = rust.join_next().await {
        inserted.unwrap();
    }
    for program in programs {
        let output = program.await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 25);
    }
    assert_eq!(number(&database, "SELECT count(*) FROM uniqueue.job WHERE queue = 'mail'").await, 1);
    assert_eq!(number(&database, "SELECT count(*) FROM uniqueue.job").await, 1);
}

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "share")]
struct Share {
    n: usize,
}

/// A worker in plain SQL.
async fn work_in_sql(pool: PgPool) {
    let fetch = "SELECT id::text, run FROM uniqueue.fetch_jobs(ARRAY['shared'], 'plain SQL')";
    loop {
        let Some((id, run)) = sqlx::query_as::<_, (String, i32)>(fetch).fetch_optional(&pool).await.unwrap() else {
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        work(&pool, &id, "sql").await;
        let complete = "SELECT counted FROM uniqueue.complete_jobs(ARRAY[$1::uuid], ARRAY[$2::integer], ARRAY['{\"by\": \"sql\"}'])";
        let counted: bool = sqlx::query_scalar(complete).bind(&id).bind(run).fetch_one(&pool).await.unwrap();
        assert!(counted);
    }
}

/// What each worker does.
async fn work(pool: &PgPool, id: &str, who: &str) {
    sqlx::query("INSERT INTO visit VALUES ($1::uuid, $2)").bind(id).bind(who).execute(pool).await.unwrap();
    eventually!(sqlx::query_scalar::<_, bool>("SELECT may_end()").fetch_one(pool).await.unwrap());
}

#[tokio::test]
async fn every_language_works_its_share() {
    const JOBS: usize = 40;
    let languages = languages();
    // Each has one slot, and no job ends before all have one. So each gets at least one.
    let crowd = languages.len() + 2;
    let database = database(&format!("SELECT count(DISTINCT who) = {crowd} FROM visit")).await;
    let jobs = (0..JOBS).map(|n| NewJob::from(Share { n }).queue(QUEUE));
    let jobs = database.client().insert_many(jobs).await.unwrap();

    let _programs: Vec<_> =
        languages.iter().map(|language| language.start(&database, &format!("{language:?}"), 1, 30)).collect();
    let sql = tokio::spawn(work_in_sql(database.pool().clone()));
    let runner = quick(database.client()).queue(QUEUE, 1).worker(|job: RunningJob<Share>| async move {
        work(job.client().pool(), &job.id().to_string(), "rust").await;
        Ok::<_, BoxError>(Outcome::complete_with(json!({"by": "rust"}))?)
    });
    let runner = runner.start().await.unwrap();

    let mut shares = BTreeMap::<String, usize>::new();
    for job in &jobs {
        // Rust waits for results that others made.
        let waited = database.client().wait(job.id()).timeout(2 * WAIT).await.unwrap();
        let output: Value = waited.output().unwrap().expect("an output");
        *shares.entry(output["by"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(shares.len(), crowd, "{shares:?}");
    assert_eq!(shares.values().sum::<usize>(), JOBS);
    sql.abort();
    runner.stop().await.unwrap();
}
