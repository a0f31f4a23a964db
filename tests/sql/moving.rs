//! examples/moving: the statements that move jobs from other queues, on tables of theirs.

use sqlx::AssertSqlSafe;
use uniqueue::testing::Database;

/// The columns of each queue's tables that the statements read, and jobs: two that wait, one that runs, one without attempts.
const TABLES: [(&str, &str); 3] = [
    (
        "apalis-postgres",
        r#"CREATE SCHEMA apalis;
        CREATE TABLE apalis.jobs (
            id text PRIMARY KEY, job_type text NOT NULL, job bytea NOT NULL, status text NOT NULL, attempts integer NOT NULL,
            max_attempts integer NOT NULL, run_at timestamptz NOT NULL DEFAULT now(), priority integer NOT NULL DEFAULT 0
        );
        INSERT INTO apalis.jobs (id, job_type, job, status, attempts, max_attempts, run_at, priority) VALUES
            ('a', 'email', '{"to": "ada"}', 'Pending', 0, 5, now(), 7),
            ('b', 'email', '{"to": "bob"}', 'Failed', 3, 5, now() + interval '1 day', 0),
            ('c', 'email', '{}', 'Running', 1, 5, now(), 0),
            ('d', 'email', '{}', 'Failed', 5, 5, now(), 0)"#,
    ),
    (
        "graphile-worker",
        r#"CREATE SCHEMA graphile_worker;
        CREATE TABLE graphile_worker._private_tasks (id integer PRIMARY KEY, identifier text NOT NULL);
        CREATE TABLE graphile_worker._private_job_queues (id integer PRIMARY KEY, queue_name text NOT NULL);
        CREATE TABLE graphile_worker._private_jobs (
            id bigint PRIMARY KEY, job_queue_id integer, task_id integer NOT NULL, payload json NOT NULL,
            priority smallint NOT NULL, run_at timestamptz NOT NULL, attempts smallint NOT NULL, max_attempts smallint NOT NULL,
            key text UNIQUE, locked_at timestamptz
        );
        INSERT INTO graphile_worker._private_tasks VALUES (1, 'email');
        INSERT INTO graphile_worker._private_job_queues VALUES (1, 'ada');
        INSERT INTO graphile_worker._private_jobs VALUES
            (1, 1, 1, '{"to": "ada"}', -7, now(), 0, 5, NULL, NULL),
            (2, NULL, 1, '{"to": "bob"}', 0, now() + interval '1 day', 3, 5, 'bob', NULL),
            (3, NULL, 1, '{}', 0, now(), 1, 5, NULL, now()),
            (4, NULL, 1, '{}', 0, now(), 5, 5, NULL, NULL)"#,
    ),
    (
        "River",
        r#"CREATE TYPE river_job_state AS ENUM (
            'available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled'
        );
        CREATE TABLE river_job (
            id bigserial PRIMARY KEY, state river_job_state NOT NULL, attempt smallint NOT NULL, max_attempts smallint NOT NULL,
            scheduled_at timestamptz NOT NULL, priority smallint NOT NULL, args jsonb, kind text NOT NULL,
            queue text NOT NULL DEFAULT 'default', unique_key bytea
        );
        INSERT INTO river_job (state, attempt, max_attempts, scheduled_at, priority, args, kind, unique_key) VALUES
            ('available', 0, 5, now(), 1, '{"to": "ada"}', 'email', NULL),
            ('retryable', 3, 5, now() + interval '1 day', 4, '{"to": "bob"}', 'email', '\x01'),
            ('running', 1, 5, now(), 1, '{}', 'email', NULL),
            ('discarded', 5, 5, now(), 1, '{}', 'email', NULL)"#,
    ),
];

fn statement(queue: &str) -> &'static str {
    match queue {
        "apalis-postgres" => include_str!("../../examples/moving/apalis.sql"),
        "graphile-worker" => include_str!("../../examples/moving/graphile_worker.sql"),
        _ => include_str!("../../examples/moving/river.sql"),
    }
}

#[tokio::test]
async fn jobs_that_wait_are_moved_once_with_what_is_left_of_them() {
    for (queue, tables) in TABLES {
        let database = Database::new().await.unwrap();
        sqlx::raw_sql(tables).execute(database.pool()).await.unwrap();
        for moved in [2, 0] {
            let count: i64 = sqlx::query_scalar(statement(queue)).fetch_one(database.pool()).await.unwrap();
            assert_eq!(count, moved, "{queue}");
        }
        let jobs =
            "SELECT concat_ws(' ', kind, args ->> 'to', state, max_attempts, priority > 0, unique_key IS NOT NULL,
                group_key, group_limit)
            FROM uniqueue.job ORDER BY args ->> 'to' COLLATE \"C\"";
        let found: Vec<String> = sqlx::query_scalar(jobs).fetch_all(database.pool()).await.unwrap();
        let (first, second) = match queue {
            "graphile-worker" => ("email ada available 5 t f ada 1", "email bob scheduled 2 f t"),
            "River" => ("email ada available 5 f f", "email bob scheduled 2 f t"),
            _ => ("email ada available 5 t f", "email bob scheduled 2 f f"),
        };
        assert_eq!(found, [first, second], "{queue}");
        let left = statement(queue).split("SELECT j.id FROM ").nth(1).unwrap().split(' ').next().unwrap();
        let left = AssertSqlSafe(format!("SELECT count(*) FROM {left}"));
        assert_eq!(sqlx::query_scalar::<_, i64>(left).fetch_one(database.pool()).await.unwrap(), 2, "{queue}");
    }
}
