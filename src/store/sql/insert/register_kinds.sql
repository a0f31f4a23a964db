-- Registers kinds, in the order of their names, so that two processes never deadlock. Answers with digests of what was
-- declared. A kind of which nothing is declared has no row, unless it is registered already.
SELECT
    k.name, /* schema */_kind_digest(d.name, to_jsonb(d)) AS digest
FROM (
    SELECT d.*
    FROM jsonb_to_recordset($1::jsonb) AS d (
        name text, queue text, priority integer, max_attempts integer, delay interval, timeout interval, backoff jsonb,
        unique_policy jsonb, group_policy jsonb, group_limit integer, in_order boolean, expires_in interval, place text
    )
    ORDER BY d.name COLLATE "C"
) AS d
CROSS JOIN LATERAL /* schema */register_kind(
    d.name, d.queue, d.priority, d.max_attempts, d.delay, d.timeout, d.unique_policy, d.group_policy, d.group_limit,
    d.in_order, $2, d.backoff, d.expires_in, d.place, $3
) AS k
WHERE k.name IS NOT NULL
