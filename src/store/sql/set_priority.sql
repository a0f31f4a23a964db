-- Gives waiting jobs another priority.
WITH wanted AS (
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.id = ANY ($1::uuid[])
        AND ($2::text[] IS NULL OR j.state = ANY ($2::text[]::/* schema */job_state[]))
        AND j.state IN ('available', 'pending', 'retryable', 'scheduled')
    ORDER BY j.id
    FOR UPDATE
)
UPDATE /* schema */job AS j
SET priority = $3
FROM wanted AS w
WHERE j.id = w.id
RETURNING j.id
