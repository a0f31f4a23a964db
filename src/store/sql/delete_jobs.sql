-- Deletes jobs that no worker has. Whatever they claimed is free.
WITH wanted AS (
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.id = ANY ($1::uuid[])
        AND ($2::text[] IS NULL OR j.state = ANY ($2::text[]::/* schema */job_state[]))
        AND j.state <> 'running'
    ORDER BY j.id
    FOR UPDATE
)
DELETE FROM /* schema */job AS j
USING wanted AS w
WHERE j.id = w.id
RETURNING j.id
