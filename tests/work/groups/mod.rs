//! Groups: limits, order and turns, with several runners at once.

mod backfill;
mod inserting;
mod limits;
mod looking;
mod one_at_a_time;
mod order;
mod turns;

use support::prelude::*;

/// Writes a row for each start and end of a job of a group, in the transaction of the change. A start says how many jobs
/// of the group run then, how many the job and its queue allow, and how many others began and are not final. An end says
/// the state that it led to.
pub(crate) const HISTORY: &str = "
    CREATE TABLE {schema}.start_log (
        n bigserial, at timestamptz DEFAULT clock_timestamp(), job uuid, group_key text, is_start boolean, running bigint,
        allowed integer, others_began bigint, is_in_order boolean, began integer, state {schema}.job_state
    );
    CREATE FUNCTION {schema}.note_history() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.state = 'running' AND OLD.state <> 'running' THEN
            INSERT INTO {schema}.start_log (job, group_key, is_start, running, allowed, others_began, is_in_order, began)
            SELECT
                NEW.id, NEW.group_key, true,
                count(*) FILTER (WHERE j.state = 'running'),
                least(
                    CASE WHEN NEW.in_order THEN 1 END, NEW.group_limit,
                    (SELECT q.max_per_group FROM {schema}.queue AS q WHERE q.name = NEW.queue)
                ),
                count(*) FILTER (WHERE j.began IS NOT NULL AND j.finalized_at IS NULL AND j.id <> NEW.id),
                coalesce(NEW.in_order, false), NEW.began
            FROM {schema}.job AS j
            WHERE j.queue = NEW.queue AND j.group_key = NEW.group_key AND j.finalized_at IS NULL;
        ELSIF OLD.state = 'running' AND NEW.state <> 'running' THEN
            INSERT INTO {schema}.start_log (job, group_key, is_start, began, state)
            VALUES (NEW.id, NEW.group_key, false, NEW.began, NEW.state);
        END IF;
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER note_history AFTER UPDATE ON {schema}.job FOR EACH ROW EXECUTE FUNCTION {schema}.note_history();
    CREATE INDEX ON {schema}.job (group_key) WHERE finalized_at IS NULL;
";

/// Asserts that no start of a job found its group full, or a line held by another job, and that the runs of each group
/// never overlapped more than it allows at any time.
async fn assert_limits_were_kept(database: &Database) {
    assert_kept(database.pool(), &database.schema).await;
}

pub(crate) async fn assert_kept(pool: &PgPool, schema: &str) {
    let number = async |text: &str| -> i64 {
        let text = AssertSqlSafe(text.replace("{schema}", schema));
        sqlx::query_scalar(text).fetch_one(pool).await.unwrap()
    };
    let starts = "SELECT count(*) FROM {schema}.start_log WHERE is_start";
    assert!(number(starts).await > 0);
    let broken = "SELECT count(*) FROM {schema}.start_log
        WHERE is_start AND (running > allowed OR (is_in_order AND others_began > 0))";
    assert_eq!(number(broken).await, 0, "starts beyond the limit");
    // A place is free when the end is committed, after its row has its number. The clock may go back.
    let overlapping = "SELECT count(*)
        FROM (
            SELECT
                h.*,
                sum(CASE WHEN h.is_start THEN 1 ELSE -1 END)
                    OVER (PARTITION BY h.group_key ORDER BY h.n) AS running_then
            FROM {schema}.start_log AS h
        ) AS h
        WHERE h.is_start AND h.running_then > h.allowed";
    assert_eq!(number(overlapping).await, 0, "runs that overlap");
    // From the start in which a job in order began to its last end no other job of its line starts. A run that was given
    // back before it started is none: its start has another mark than the end.
    let between = "SELECT count(*)
        FROM (
            SELECT job, group_key, min(n) AS first, max(n) FILTER (WHERE NOT is_start) AS last
            FROM {schema}.start_log
            GROUP BY job, group_key, began
            HAVING bool_or(is_in_order)
        ) AS line
        JOIN {schema}.start_log AS other ON other.group_key = line.group_key AND other.job <> line.job
        WHERE other.is_start AND other.n BETWEEN line.first AND line.last";
    assert_eq!(number(between).await, 0, "starts of a line whose first job was not final");
}
