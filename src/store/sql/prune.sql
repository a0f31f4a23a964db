-- Deletes final jobs past their retention, of a range of ids: those from $1 up to $2, at most $3. Ids follow time, so
-- the primary key serves and no index on finalized_at is needed. A job whose claim has a deadline is kept until then:
-- its row is the claim, so deleting it early would end the claim early. $4, $5 and $6 are the retention where the queue
-- has none of its own. Always one row: the number of deleted and of remaining jobs, the last id that was read if the
-- limit ended the range, and in how many milliseconds another job may be deleted. A job that is not final yet counts as
-- one that may be deleted in $7.
WITH scanned AS MATERIALIZED (
    SELECT j.id, j.queue, j.state, j.finalized_at, j.claims, j.unique_until
    FROM /* schema */job AS j
    WHERE j.id >= $1 AND j.id <= $2
    ORDER BY j.id
    LIMIT $3
),
kept AS (
    SELECT
        w.id, w.finalized_at, w.claims, w.unique_until,
        CASE
            WHEN w.state = 'completed' THEN coalesce(q.keep_completed, $4::interval)
            WHEN w.state = 'cancelled' THEN coalesce(q.keep_cancelled, $5::interval)
            WHEN w.state = 'discarded' THEN coalesce(q.keep_discarded, $6::interval)
        END AS keep
    FROM scanned AS w
    LEFT JOIN /* schema */queue AS q ON q.name = w.queue
),
aged AS MATERIALIZED (
    SELECT
        k.id,
        CASE
            WHEN k.finalized_at IS NULL THEN clock_timestamp() + $7::interval
            WHEN k.keep IS NOT NULL THEN
                -- A retention can be as long as an interval, and no time may be out of range.
                greatest(k.finalized_at + least(k.keep, interval '1000 years'), CASE WHEN k.claims THEN k.unique_until END)
        END AS goes_at
    FROM kept AS k
),
deletable AS (
    SELECT j.id
    FROM /* schema */job AS j
    -- An array, not a join: the planner takes a LIMIT of unknown size for a tenth of the table.
    WHERE j.id = ANY (ARRAY(SELECT a.id FROM aged AS a WHERE a.goes_at <= clock_timestamp()))
        -- Asked of the row as it is when it is locked: it may have come back to life meanwhile.
        AND j.finalized_at <= statement_timestamp()
    ORDER BY j.id
    FOR UPDATE OF j SKIP LOCKED
),
pruned AS (
    DELETE FROM /* schema */job AS j
    WHERE j.id = ANY (ARRAY(SELECT d.id FROM deletable AS d))
    RETURNING j.id
)
SELECT
    (SELECT count(*) FROM pruned) AS pruned,
    (SELECT count(*) FROM scanned) - (SELECT count(*) FROM pruned) AS remaining,
    (SELECT w.id FROM scanned AS w ORDER BY w.id OFFSET $3 - 1) AS reached,
    (
        SELECT (extract(epoch FROM least(min(a.goes_at), clock_timestamp() + interval '1 day') - clock_timestamp()) * 1000)::bigint
        FROM aged AS a
        WHERE NOT EXISTS (SELECT FROM pruned AS p WHERE p.id = a.id)
    ) AS next_in
