//! Rates and holds: never more starts than allowed, none much later than allowed, with several runners at once.

mod groups;
mod holds;
mod queue;

use support::prelude::*;

/// Writes a row for each start of a job, in the transaction of the start.
const HISTORY: &str = "
    CREATE TABLE {schema}.start_log (n bigserial, at timestamptz, queue text, group_key text);
    CREATE FUNCTION {schema}.note_history() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO {schema}.start_log (at, queue, group_key) VALUES (NEW.attempted_at, NEW.queue, NEW.group_key);
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER note_history AFTER UPDATE ON {schema}.job FOR EACH ROW
        WHEN (NEW.state = 'running' AND OLD.state <> 'running')
        EXECUTE FUNCTION {schema}.note_history();
";

const LEFT: &str = "SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL";

fn work(millis: u64) -> NewJob {
    NewJob::from(Work { deed: Deed::Plain, millis })
}

/// Asserts that in no length of time more jobs started than the rate allows: of the queue, or of each of its groups. Only
/// starts that fulfil the condition count.
async fn assert_rate_was_kept(database: &Database, rate: Rate, part: &str, condition: &str) {
    let per_start = rate.period.as_micros() as f64 / f64::from(rate.count) / 1e6;
    // The starts i to j are j - i + 1. So (j * T - t_j) - (i * T - t_i) is at most (burst - 1) * T. Times have microseconds.
    let broken = format!(
        "SELECT count(*)
        FROM (
            SELECT s.ahead - min(s.ahead) OVER (PARTITION BY s.part ORDER BY s.place) AS ahead
            FROM (
                SELECT
                    h.part, h.place,
                    h.place * {per_start}::numeric - extract(epoch FROM h.at - '2020-01-01') AS ahead
                FROM (
                    SELECT {part} AS part, h.at, row_number() OVER (PARTITION BY {part} ORDER BY h.at, h.n) AS place
                    FROM {{schema}}.start_log AS h
                    WHERE {condition}
                ) AS h
            ) AS s
        ) AS s
        WHERE s.ahead > ({burst} - 1) * {per_start}::numeric + 0.000002",
        burst = rate.burst
    );
    assert_eq!(database.number(&broken).await, 0, "starts beyond {rate} of {part}");
    let starts = format!("SELECT count(*) FROM {{schema}}.start_log AS h WHERE {condition}");
    assert!(database.number(&starts).await > 0);
}

/// How long all starts took, in milliseconds.
async fn took(database: &Database) -> i64 {
    database.number("SELECT (extract(epoch FROM max(at) - min(at)) * 1000)::bigint FROM {schema}.start_log").await
}
