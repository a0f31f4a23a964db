-- Inserts a job of a periodic job outside of its schedule. Under a policy that rejects, the answer is the holder of the
-- key, as under ignore.
SELECT i.id, i.duplicate
FROM /* schema */periodic AS p
CROSS JOIN LATERAL /* schema */insert_job(
    kind => p.kind,
    args => p.args,
    queue => p.queue,
    meta => p.meta || jsonb_build_object('periodic', jsonb_build_object('name', p.name)),
    priority => p.priority,
    max_attempts => p.max_attempts,
    unique_policy => p.unique_policy,
    on_reject => 'row',
    group_key => p.group_key,
    group_policy => CASE WHEN p.group_key IS NULL AND NOT p.takes_from_kind THEN 'null'::jsonb END,
    group_limit => p.group_limit,
    in_order => p.in_order,
    expires_at => CASE WHEN coalesce(p.expires_in = interval '0', NOT p.takes_from_kind) THEN 'infinity'::timestamptz END,
    expires_in => nullif(p.expires_in, interval '0')
) AS i
WHERE p.name = $1
