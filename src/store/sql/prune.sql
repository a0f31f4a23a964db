-- Deletes final jobs past their retention, oldest ids first. Ids follow time, so the primary key
-- serves and no index on finalized_at is needed. Answers how far the walk came, so that the next
-- call goes on from there; null: it came to the end. A job whose claim has a deadline is kept
-- until then: its row is the claim, and who asked for seven days must not get one.
WITH walked AS MATERIALIZED (
    SELECT j.id, j.finalized_at
    FROM /* schema */job AS j
    WHERE j.id > $1
    ORDER BY j.id
    LIMIT $2
),
doomed AS (
    SELECT j.id
    FROM /* schema */job AS j
    -- An array, not a join: the planner takes a LIMIT of unknown size for a tenth of the table.
    WHERE j.id = ANY (
            ARRAY(
                SELECT w.id
                FROM walked AS w
                WHERE w.finalized_at IS NOT NULL
            )
        )
        AND j.finalized_at <= clock_timestamp() - CASE
        WHEN j.state = 'completed' THEN $3::interval
        WHEN j.state = 'cancelled' THEN $4::interval
        WHEN j.state = 'discarded' THEN $5::interval
    END
        AND (NOT j.claims OR j.unique_until IS NULL OR j.unique_until <= clock_timestamp())
    ORDER BY j.id
    FOR UPDATE OF j SKIP LOCKED
),
pruned AS (
    DELETE FROM /* schema */job AS j
    WHERE j.id = ANY (ARRAY(SELECT d.id FROM doomed AS d))
    RETURNING j.id
)
SELECT
    (SELECT count(*) FROM pruned) AS pruned,
    (SELECT w.id FROM walked AS w ORDER BY w.id OFFSET $2 - 1) AS reached
