-- The next page of a backfill, which pages through all jobs by id: those after $1 up to $2, at most $3; with $6 only
-- those ids. Of the page, the fields of a key, the present claim and the present group of each job of kind $4 that is not final, or is
-- final in one of the states $5. Always a row: the number of jobs in the page, and its last id.
WITH scanned AS MATERIALIZED (
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.id > $1 AND j.id <= $2 AND ($6::uuid[] IS NULL OR j.id = ANY ($6::uuid[]))
    ORDER BY j.id
    LIMIT $3
),
stretch AS MATERIALIZED (
    SELECT (SELECT count(*) FROM scanned) AS scanned, (SELECT w.id FROM scanned AS w ORDER BY w.id DESC LIMIT 1) AS reached
)
SELECT
    s.scanned, s.reached, j.id, j.queue, j.state::text AS state, j.args, j.meta, j.attempt, j.created_at, j.scheduled_at,
    date_part('epoch', j.scheduled_at) AS due_epoch,
    j.attempted_at, j.unique_key, j.unique_states, j.unique_until, j.until_start, j.discard_on_reentry, j.unique_yielded,
    j.group_key, j.group_limit, j.in_order, j.updates
FROM stretch AS s
LEFT JOIN /* schema */job AS j
    ON j.id = ANY (ARRAY(SELECT w.id FROM scanned AS w))
    AND j.kind = $4
    AND (j.finalized_at IS NULL OR j.state = ANY ($5::text[]::/* schema */job_state[]))
ORDER BY j.id
