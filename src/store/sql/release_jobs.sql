-- Lets pending jobs go: available, or scheduled where their time has not come.
WITH wanted AS (
    SELECT
        j.id,
        CASE
            WHEN j.scheduled_at > clock_timestamp() THEN 'scheduled' ELSE 'available'
        END::/* schema */job_state AS state
    FROM /* schema */job AS j
    WHERE j.id = ANY ($1::uuid[])
        AND ($2::text[] IS NULL OR j.state = ANY ($2::text[]::/* schema */job_state[]))
        AND j.state = 'pending'
    ORDER BY j.id
    FOR UPDATE
),
changed AS (
    UPDATE /* schema */job AS j
    SET state = w.state,
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
