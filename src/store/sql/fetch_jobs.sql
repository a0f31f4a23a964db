-- Starts the next jobs of these queues ($1) for a remote worker ($2).
SELECT
    f.id, f.run, f.kind, f.queue, f.args, f.meta, f.attempt, f.max_attempts, f.priority, f.crashes, f.created_at,
    f.scheduled_at, f.reserved_until, f.errors, f.progress, f.unique_key, f.group_key, f.worker_id,
    (extract(epoch FROM f.timeout) * 1000)::bigint AS timeout
FROM /* schema */fetch_jobs($1, $2, $3, $4, $5, $6) AS f
