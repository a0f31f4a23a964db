-- The periodic jobs, or the one of a name, with what they take from their registered kind.
SELECT
    p.name, p.kind, coalesce(p.queue, k.queue, 'default') AS queue, p.args, p.meta,
    coalesce(p.priority, k.priority, 0) AS priority, coalesce(p.max_attempts, k.max_attempts, 25) AS max_attempts,
    extract(epoch FROM nullif(coalesce(p.expires_in, k.expires_in), interval '0'))::double precision AS expires_in,
    p.schedule, p.time_zone, coalesce(p.unique_policy, k.unique_policy) AS unique_policy,
    p.catch_up, p.source, p.starts_at, p.next_at, p.last_at, p.last_job, p.paused_at, p.created_at, p.problem
FROM /* schema */periodic AS p
LEFT JOIN /* schema */kind AS k ON k.name = p.kind AND p.takes_from_kind
WHERE p.name = coalesce($1::jsonb ->> 'name', p.name)
ORDER BY p.name
