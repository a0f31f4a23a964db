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
SELECT s.scanned, s.reached, CASE WHEN r.id IS NOT NULL THEN to_jsonb(r) END AS job
FROM stretch AS s
LEFT JOIN LATERAL (
    SELECT
        j.id, j.queue, j.state, j.args, j.meta, j.attempt, j.created_at, j.scheduled_at, j.scheduled_at AS due,
        j.attempted_at IS NOT NULL AS was_attempted, j.unique_key, j.unique_states, j.unique_until, j.until_start,
        j.discard_on_reentry, j.unique_yielded, j.group_key, j.group_limit, j.in_order, j.updates
    FROM /* schema */job AS j
    WHERE j.id = ANY (ARRAY(SELECT w.id FROM scanned AS w))
        AND j.kind = $4
        AND (j.finalized_at IS NULL OR j.state = ANY ($5::text[]::/* schema */job_state[]))
) AS r ON true
ORDER BY r.id
