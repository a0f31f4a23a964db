//! The recipes of docs/learn/workflows.md: each runs, and does at a crash, a rollback and a cancel what the page says.

mod cancelling;
mod import;
mod map_reduce;
mod pipeline;
mod resuming;
mod saga;

use support::prelude::*;
use uniqueue::testing;
use uniqueue::testing::Drained;

#[test]
fn the_recipes_on_the_page_are_those_that_are_tested() {
    let page = include_str!("../../../docs/learn/workflows.md");
    let sources = [
        include_str!("pipeline.rs"),
        include_str!("map_reduce.rs"),
        include_str!("import.rs"),
        include_str!("saga.rs"),
        include_str!("cancelling.rs"),
        include_str!("resuming.rs"),
    ];
    let recipes: Vec<_> = page.split("```rust,no_run\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(recipes.len(), sources.len());
    for (recipe, source) in recipes.iter().zip(sources) {
        assert!(source.contains(recipe), "the page and tests/work/recipes differ: {recipe}");
    }
}

fn runner(database: &Database) -> Runner {
    Runner::new(database.client.clone()).queue("default", 5)
}

/// Works jobs of these kinds, each of which completes, unless its kind is `failing`.
async fn work(database: &Database, kinds: &[&str], failing: &'static str) -> Drained {
    let worked = runner(database).worker_for(kinds.iter().copied(), move |job| async move {
        if job.kind().as_str() == failing { Outcome::discard("refused") } else { Outcome::complete() }
    });
    testing::drain(worked).await.unwrap()
}

/// The kinds of the attempts, in their order.
fn worked(drained: &Drained) -> Vec<&str> {
    drained.jobs().iter().map(|worked| worked.job.kind.as_str()).collect()
}

/// Each kind with its state, in the order of the inserts.
async fn states(database: &Database) -> String {
    database.text("SELECT string_agg(kind || ' ' || state, ', ' ORDER BY id) FROM {schema}.job").await
}

async fn error_of(database: &Database, kind: &str) -> String {
    database.text(&format!("SELECT errors -> -1 ->> 'error' FROM {{schema}}.job WHERE kind = '{kind}'")).await
}

async fn first_of(database: &Database, kind: &str) -> JobId {
    let id = format!("SELECT id::text FROM {{schema}}.job WHERE kind = '{kind}' ORDER BY id LIMIT 1");
    database.text(&id).await.parse().unwrap()
}

/// A runner starts the first job of a kind, and its process dies.
async fn crash(database: &Database, kind: &str) {
    let id = first_of(database, kind).await;
    let started = format!(
        "WITH dead AS (
            INSERT INTO {{schema}}.runner (id, name, queues, leased_until, knows_groups)
            VALUES (gen_random_uuid(), 'dead', '{{}}', now(), true) RETURNING id
        )
        UPDATE {{schema}}.job AS j
        SET state = 'running', worker = dead.id, attempt = j.attempt + 1, run = j.run + 1, attempted_at = now()
        FROM dead WHERE j.id = '{id}'"
    );
    assert_eq!(database.execute(&started).await, 1);
}

/// The job of the dead runner comes back, and its wait is over.
async fn rescue(database: &Database) {
    let minute = Duration::from_secs(60);
    assert_eq!(testing::advance(&database.client, minute).await.unwrap().rescued, 1);
    testing::advance(&database.client, minute).await.unwrap();
}

/// The database refuses the insert of a kind, and so rolls back the insert.
async fn refuse(database: &Database, kind: &str) {
    database.execute(&format!("ALTER TABLE {{schema}}.job ADD CHECK (kind <> '{kind}')")).await;
}

async fn jobs(database: &Database) -> i64 {
    database.number("SELECT count(*) FROM {schema}.job").await
        + database.number("SELECT count(*) FROM {schema}.job_parent").await
}
