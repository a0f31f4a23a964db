-- Groups whose first available job waits, by queue and reason, with the one that has waited for longest. Only groups of
-- queues that are not paused and that a live runner works are named, among the first $1 groups of each sort. A runner
-- that does not say its kinds may know any.
WITH live AS MATERIALIZED (
    SELECT r.queues, r.kinds FROM /* schema */runner AS r WHERE r.leased_until > clock_timestamp()
),
held AS (
    SELECT
        g.queue COLLATE "C" AS queue, g.group_key COLLATE "C" AS group_key, g.head, g.head_kind COLLATE "C" AS head_kind, g.held_by,
        extract(epoch FROM g.held_until - clock_timestamp())::double precision AS held_for,
        extract(epoch FROM clock_timestamp() - greatest(g.head_since, 'epoch'))::double precision AS age,
        CASE
            -- A rate that is used to the full is what it is for, and a hold ends. One far ahead may be a mistake.
            WHEN g.held_code = 'group_held' THEN CASE WHEN g.held_until > clock_timestamp() + interval '1 h' THEN 'hold' END
            WHEN g.held_code IN ('queue_held', 'queue_rate', 'group_rate') THEN NULL
            WHEN g.held_code = 'group_began' THEN 'began'
            WHEN NOT EXISTS (
                SELECT FROM live AS l
                WHERE g.queue = ANY (l.queues) AND (l.kinds IS NULL OR g.head_kind = ANY (l.kinds))
            ) THEN 'kind'
            WHEN g.held_code = 'group_limit' THEN 'limit'
        END COLLATE "C" AS reason
    FROM /* schema */groups(NULL, $1) AS g
    WHERE g.head IS NOT NULL
        AND NOT EXISTS (SELECT FROM /* schema */queue AS q WHERE q.name = g.queue AND q.paused_at IS NOT NULL)
        AND EXISTS (SELECT FROM live AS l WHERE g.queue = ANY (l.queues))
)
SELECT to_jsonb(f)
FROM (
    SELECT DISTINCT ON (h.queue, h.reason, kind)
        h.queue, h.reason, h.group_key, h.head, h.head_kind, h.held_for,
        CASE h.reason
            WHEN 'kind' THEN /* schema */_obstacle_reason('group_head', jsonb_build_object(
                'group', h.group_key, 'job', h.head, 'because', jsonb_build_object(
                    'code', 'kind_unknown', 'details', jsonb_build_object('queue', h.queue, 'kind', h.head_kind)
                )
            ))
            ELSE h.held_by
        END AS held_by,
        count(*) OVER (PARTITION BY h.queue, h.reason, kind) AS groups,
        h.age AS oldest_age
    FROM held AS h
    CROSS JOIN LATERAL (SELECT CASE h.reason WHEN 'kind' THEN h.head_kind END AS kind) AS k
    WHERE h.reason IS NOT NULL AND h.age >= extract(epoch FROM $2::interval)
    ORDER BY h.queue, h.reason, kind, h.age DESC, h.group_key
    LIMIT 100
) AS f
