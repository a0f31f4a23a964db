-- Groups of one queue or of all that have available or running jobs. Those that wait for something come first, of the 1,000
-- first ones of each sort, or of more where the limit is more. After a group they come in the order of queues and keys. Both
-- empty: from the first on.
SELECT
    g.queue, g.group_key AS "group", g.running, g.group_limit AS "limit", g.waiting, g.head, g.head_kind, g.head_since,
    g.held_until,
    CASE
        WHEN g.held_code IS NOT NULL
            THEN jsonb_build_object(
                'code', g.held_code, 'reason', g.held_by, 'details', g.held_details,
                'remedy', /* schema */_obstacle_remedy(g.held_code, g.held_details)
            )
    END AS held_by
FROM (
    SELECT
        $1::jsonb ->> 'after_queue' AS after_queue, $1::jsonb ->> 'after_group' AS after_group,
        least(($1::jsonb ->> 'limit')::bigint, 2147483647)::integer AS most
) AS p
CROSS JOIN LATERAL /* schema */groups(
    $1::jsonb ->> 'queue', CASE WHEN p.after_queue IS NULL THEN greatest(p.most, 1000) ELSE p.most END, p.after_queue, p.after_group
) AS g
WHERE $1::jsonb ->> 'group' IS NULL OR g.group_key = $1::jsonb ->> 'group'
ORDER BY
    CASE WHEN p.after_queue IS NULL THEN g.held_code IS NULL END, CASE WHEN p.after_queue IS NULL THEN g.head_since END,
    g.queue COLLATE "C", g.group_key COLLATE "C"
LIMIT ($1::jsonb ->> 'limit')::bigint
