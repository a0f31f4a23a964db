//! docs/operate/operations.md and deploy/alerts.sql: each of their commands is run. Maintenance is in `maintenance`.

use support::prelude::*;
use uniqueue::testing;

const GUIDE: &str = include_str!("../../docs/operate/operations.md");
const ALERTS: &str = include_str!("../../deploy/alerts.sql");

#[derive(Debug, serde::Deserialize, serde::Serialize, Job)]
#[job(kind = "task")]
struct Task {}

/// The statements of a section of the page.
fn statements_of(section: &str) -> Vec<(String, String)> {
    let (_, rest) = GUIDE.split_once(&format!("\n## {section}\n")).expect(section);
    let section = rest.split("\n## ").next().unwrap();
    section.split("```sql\n").skip(1).flat_map(|block| statements(block.split("```").next().unwrap())).collect()
}

/// The statements of a text, each with the comment above it.
fn statements(text: &str) -> Vec<(String, String)> {
    text.split(";\n")
        .filter(|text| !text.trim().is_empty())
        .map(|text| {
            let (comments, lines): (Vec<_>, Vec<_>) = text.trim().lines().partition(|line| line.starts_with("--"));
            (comments.join(" "), lines.join("\n").trim_end_matches(';').to_owned())
        })
        .collect()
}

async fn rows(pool: &PgPool, query: &str) -> Vec<String> {
    let text = format!("SELECT q::text FROM ({query}) AS q");
    sqlx::query_scalar(AssertSqlSafe(text)).fetch_all(pool).await.unwrap_or_else(|error| panic!("{query}: {error}"))
}

#[support::test]
async fn no_alert_is_raised_over_a_database_in_which_all_is_well(database: testing::Database) {
    let runner = Runner::new(database.client().clone()).queue("default", 2).worker(|_: RunningJob<Task>| async {});
    let runner = runner.start().await.unwrap();
    database.client().insert_many((0..5).map(|_| Task {})).await.unwrap();
    let later = job("task").scheduled_in(Duration::from_secs(60));
    database.client().insert(later).await.unwrap();
    let left = "SELECT count(*) FROM uniqueue.job WHERE state <> 'completed'";
    eventually!(sqlx::query_scalar::<_, i64>(left).fetch_one(database.pool()).await.unwrap() <= 1, "not worked");
    let alerts = statements(ALERTS);
    assert_eq!(alerts.len(), 13);
    for (what, query) in alerts {
        assert_eq!(rows(database.pool(), &query).await, [""; 0], "{what}");
    }
    runner.stop().await.unwrap();
}

#[support::test]
async fn each_alert_is_raised_over_its_trouble(database: testing::Database) {
    let trouble = "
        ALTER TABLE uniqueue.job SET (autovacuum_enabled = off);
        SELECT uniqueue.insert_job('a', queue => q) FROM unnest(ARRAY['nobody', 'paused', 'slow']) AS q;
        SELECT uniqueue.pause_queue('paused');
        UPDATE uniqueue.queue SET paused_at = now() - interval '2 hours';
        UPDATE uniqueue.job SET created_at = now() - interval '1 hour', scheduled_at = now() - interval '1 hour';
        INSERT INTO uniqueue.runner (id, name, queues, leased_until, knows_groups)
            VALUES (gen_random_uuid(), 'r', '{slow,paused}', now() + interval '1 hour', true);
        INSERT INTO uniqueue.job (id, kind, state, finalized_at, errors)
        SELECT uniqueue.new_job_id(), 'bad', 'discarded', now(), jsonb_build_array(jsonb_build_object('at', now(), 'error', 'no'))
        FROM generate_series(1, 100);
        INSERT INTO uniqueue.job (id, kind, state, finalized_at)
            VALUES (uniqueue.id_at(now() - interval '2 days'), 'old', 'completed', now() - interval '2 days');
        INSERT INTO uniqueue.job (id, kind, state, finalized_at, expires_at, errors)
        SELECT uniqueue.new_job_id(), 'late', 'discarded', now(), now(), '[{\"code\": \"expired\"}]'
        FROM generate_series(1, 100);
        INSERT INTO uniqueue.maintenance (service, leased_until) VALUES ('promoter', now() - interval '1 hour');
        INSERT INTO uniqueue.periodic (name, kind, schedule, problem) VALUES ('p', 'a', 'PT1M', 'no such zone');
    ";
    sqlx::raw_sql(trouble).execute(database.pool()).await.unwrap();
    let raised = [
        ("Jobs have been waiting", "slow"),
        ("Jobs without a live runner", "nobody"),
        ("Forgotten pauses", "paused"),
        ("Jobs that should have moved", "queue_unworked"),
        ("Kinds whose jobs are being discarded", "(bad,100,no)"),
        ("Jobs that expire before they start", "(default,late,100)"),
        ("Autovacuum is off", "job"),
        ("Retention does not keep up", "completed"),
        ("Maintenance services without a runner", "promoter"),
        ("Periodic jobs that cannot", "no such zone"),
    ];
    let alerts = statements(ALERTS);
    for (what, part) in raised {
        let (_, query) = alerts.iter().find(|(comment, _)| comment.contains(what)).expect(what);
        let answer = rows(database.pool(), query).await.join("; ");
        assert!(answer.contains(part), "{what}: {answer}");
    }
    // These want another session and minutes of time: with their limits at nothing they answer.
    let mut open = database.pool().begin().await.unwrap();
    let insert = "SELECT uniqueue.insert_job('k', unique_policy => '{}')";
    sqlx::query(insert).execute(&mut *open).await.unwrap();
    let pool = database.pool().clone();
    let waiting = tokio::spawn(async move { sqlx::query(insert).execute(&pool).await.unwrap() });
    for (what, limit) in
        [("Inserts that wait", "interval '5 s'"), ("An old snapshot prevents vacuum", "interval '10 minutes'")]
    {
        let (_, query) = alerts.iter().find(|(comment, _)| comment.contains(what)).expect(what);
        assert!(query.contains(limit), "{query}");
        let query = query.replace(limit, "interval '0'");
        eventually!(!rows(database.pool(), &query).await.is_empty(), "{what}");
    }
    open.rollback().await.unwrap();
    waiting.await.unwrap();
}

#[support::test]
async fn the_settings_for_large_tables_are_taken_and_shown(database: testing::Database) {
    let settings = statements_of("Autovacuum");
    assert_eq!(settings.len(), 1);
    sqlx::query(AssertSqlSafe(settings[0].1.clone())).execute(database.pool()).await.unwrap();
    let shown = "SELECT vacuum_at_dead_rows FROM uniqueue.table_health WHERE table_name = 'job'";
    assert_eq!(sqlx::query_scalar::<_, i64>(shown).fetch_one(database.pool()).await.unwrap(), 10_000);
}
