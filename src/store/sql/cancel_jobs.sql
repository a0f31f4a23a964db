-- Cancels jobs that are not final. A running one is over at once as well: its worker's result
-- will be stale, and its runner is told.
WITH wanted AS (
    SELECT j.id, CASE WHEN j.state = 'running' THEN j.worker END AS worker
    FROM /* schema */job AS j
    WHERE j.id = ANY ($1::uuid[])
        AND ($2::text[] IS NULL OR j.state = ANY ($2::text[]::/* schema */job_state[]))
        AND j.finalized_at IS NULL
    ORDER BY j.id
    FOR UPDATE
),
changed AS (
    UPDATE /* schema */job AS j
    SET state = 'cancelled',
        finalized_at = clock_timestamp(),
        unique_yielded = j.unique_yielded OR /* schema */enters_claim(j.unique_states, j.state, 'cancelled')
    FROM wanted AS w
    WHERE j.id = w.id
    RETURNING j.id, j.kind, j.queue, j.attempt, j.unique_yielded, w.worker
),
settled AS MATERIALIZED (
    SELECT
        /* schema */take_claims(array_agg(c.id) FILTER (WHERE c.unique_yielded)),
        /* schema */tell_runners(array_agg(DISTINCT c.worker) FILTER (WHERE c.worker IS NOT NULL))
    FROM changed AS c
)
SELECT c.id, c.kind, c.queue, c.attempt, 'cancelled' AS state
FROM changed AS c
CROSS JOIN settled AS s
