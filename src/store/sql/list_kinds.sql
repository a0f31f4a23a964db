-- The registered kinds, or those of these names.
SELECT
    k.name, k.queue, k.priority, k.max_attempts, k.backoff, k.unique_policy, k.group_policy, k.group_limit, k.place,
    extract(epoch FROM k.delay)::double precision AS delay,
    extract(epoch FROM k.expires_in)::double precision AS expires_in, extract(epoch FROM k.timeout)::double precision AS timeout,
    coalesce(k.in_order, false) AS in_order, k.registered_at, k.registered_by, k.changed_at
FROM /* schema */kind AS k
WHERE k.name = ANY (coalesce($1::text[], ARRAY(SELECT a.name::text FROM /* schema */kind AS a)))
ORDER BY k.name
