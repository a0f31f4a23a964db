-- Cancels jobs that are not final. A running one is over at once as well: its worker's result
-- will be stale.
WITH wanted AS (
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.id = ANY ($1::uuid[]) AND j.finalized_at IS NULL
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
    RETURNING j.id, j.kind, j.queue, j.attempt, j.unique_yielded
),
settled AS MATERIALIZED (
    SELECT /* schema */take_claims(array_agg(c.id))
    FROM changed AS c
    WHERE c.unique_yielded
)
SELECT c.id, c.kind, c.queue, c.attempt, 'cancelled' AS state
FROM changed AS c
CROSS JOIN settled AS s
