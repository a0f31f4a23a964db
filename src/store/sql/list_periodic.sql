-- The periodic jobs, or the one of a name.
SELECT
    p.name, p.kind, p.queue, p.args, p.meta, p.priority, p.max_attempts, p.schedule, p.time_zone, p.unique_policy,
    p.catch_up, p.source, p.starts_at, p.next_at, p.last_at, p.last_job, p.paused_at, p.created_at, p.problem
FROM /* schema */periodic AS p
WHERE p.name = coalesce($1::text, p.name)
ORDER BY p.name
