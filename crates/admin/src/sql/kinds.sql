-- The registered kinds by name, or the one of this `name`.
SELECT
    k.name, k.queue, k.priority, k.max_attempts, k.backoff, k.unique_policy, k.group_policy, k.group_limit, k.place,
    extract(epoch FROM k.delay) AS delay, extract(epoch FROM k.expires_in) AS expires_in, extract(epoch FROM k.timeout) AS timeout,
    coalesce(k.in_order, false) AS in_order, k.registered_at, k.registered_by, k.changed_at
FROM /* schema */kind AS k
WHERE k.name = coalesce($1::jsonb ->> 'name', k.name)
ORDER BY k.name
