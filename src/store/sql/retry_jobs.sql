-- An operator's retry: makes final and waiting jobs available at once, with at least one attempt
-- left. A job that comes back takes its claim back where the key is free.
WITH wanted AS (
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.id = ANY ($1::uuid[])
        AND ($2::text[] IS NULL OR j.state = ANY ($2::text[]::/* schema */job_state[]))
        AND j.state IN ('cancelled', 'completed', 'discarded', 'retryable', 'scheduled')
    ORDER BY j.id
    FOR UPDATE
),
changed AS (
    UPDATE /* schema */job AS j
    SET state = 'available',
        scheduled_at = clock_timestamp(),
        finalized_at = NULL,
        max_attempts = greatest(j.max_attempts, least(j.attempt::integer + 1, 32767)),
        unique_yielded = j.unique_yielded OR /* schema */enters_claim(j.unique_states, j.state, 'available')
    FROM wanted AS w
    WHERE j.id = w.id
    RETURNING j.id, j.kind, j.queue, j.attempt, j.unique_yielded
),
settled AS MATERIALIZED (
    SELECT
        /* schema */take_claims(array_agg(c.id) FILTER (WHERE c.unique_yielded)) AS discarded,
        /* schema */wake_runners(array_agg(DISTINCT c.queue))
    FROM changed AS c
)
SELECT
    c.id, c.kind, c.queue, c.attempt,
    CASE WHEN c.id = ANY (s.discarded) THEN 'discarded' ELSE 'available' END AS state
FROM changed AS c
CROSS JOIN settled AS s
