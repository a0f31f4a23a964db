-- The running jobs that have run for longest, with their runners.
SELECT
    r.id, r.kind, r.queue, r.attempt, r.max_attempts, r.runner_name AS runner, r.runner_is_alive, r.progress, r.unique_key,
    extract(epoch FROM r.running_for) AS running_for
FROM /* schema */running_job AS r
ORDER BY r.started_at, r.id
LIMIT ($1::jsonb ->> 'limit')::bigint
