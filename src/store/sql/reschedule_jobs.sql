-- Gives waiting jobs another time. Those that are due become available at once, the others wait.
WITH wanted AS (
    SELECT
        j.id,
        CASE
            WHEN j.state = 'pending' THEN 'pending'
            WHEN $3::timestamptz <= clock_timestamp() THEN 'available'
            WHEN j.state = 'retryable' THEN 'retryable'
            ELSE 'scheduled'
        END::/* schema */job_state AS state
    FROM /* schema */job AS j
    WHERE j.id = ANY ($1::uuid[])
        AND ($2::text[] IS NULL OR j.state = ANY ($2::text[]::/* schema */job_state[]))
        AND j.state IN ('available', 'pending', 'retryable', 'scheduled')
    ORDER BY j.id
    FOR UPDATE
),
changed AS (
    UPDATE /* schema */job AS j
    SET state = w.state,
        scheduled_at = $3::timestamptz,
        unique_yielded = j.unique_yielded OR /* schema */enters_claim(j.unique_states, j.state, w.state)
    FROM wanted AS w
    WHERE j.id = w.id
    RETURNING j.id, j.queue, j.ready, j.unique_yielded
),
settled AS MATERIALIZED (
    SELECT
        /* schema */take_claims(array_agg(c.id) FILTER (WHERE c.unique_yielded)),
        /* schema */wake_runners(array_agg(DISTINCT c.queue) FILTER (WHERE c.ready))
    FROM changed AS c
)
SELECT c.id
FROM changed AS c
CROSS JOIN settled AS s
