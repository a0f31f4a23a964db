-- Gives jobs their keys and terms: $1 is an array of objects with the columns of `given`. Where `until_start` is true the
-- claim lasts until the start. Only jobs that still have the key `seen_key` and are due at `seen_due` are changed.
-- Each job first yields its claim, as a job that comes back does. Then _take_claims takes it where the key is free: one
-- contested key does not stop the others. Locked jobs are left for later. backfill_settle.sql sets discard_on_reentry
-- afterwards. Returns the jobs that were changed.
/* planned anew */
WITH given AS MATERIALIZED (
    SELECT
        g.id, g.unique_key, g.unique_until, g.unique_states, g.until_start, g.seen_key, g.seen_due,
        -- A claim that has ended before it begins.
        coalesce(g.unique_until <= clock_timestamp(), false) AS is_over
    FROM jsonb_to_recordset($1::jsonb) AS g (
        id uuid, unique_key text, unique_until timestamptz, unique_states smallint, until_start boolean, seen_key text,
        seen_due timestamptz
    )
),
free AS MATERIALIZED (
    -- In one order, so that two backfills cannot deadlock.
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.id = ANY (ARRAY(SELECT g.id FROM given AS g))
    ORDER BY j.id
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE /* schema */job AS j
SET unique_key = g.unique_key,
    unique_until = g.unique_until,
    until_start = g.until_start,
    discard_on_reentry = false,
    unique_states = CASE
        -- A claim that was given up for good is not made anew under another key.
        WHEN g.is_over OR (g.until_start AND j.attempted_at IS NOT NULL) OR (j.unique_key IS NOT NULL AND j.unique_states = 0)
            THEN 0
        ELSE g.unique_states
    END,
    unique_yielded = g.unique_states & /* schema */_state_bit(j.state) <> 0
        AND NOT g.is_over
        AND NOT (g.until_start AND j.attempted_at IS NOT NULL)
        AND NOT (j.unique_key IS NOT NULL AND j.unique_states = 0)
FROM given AS g
WHERE j.id = g.id
    AND j.id = ANY (ARRAY(SELECT f.id FROM free AS f))
    AND j.unique_key IS NOT DISTINCT FROM g.seen_key
    AND j.scheduled_at = g.seen_due
RETURNING j.id, j.unique_yielded
