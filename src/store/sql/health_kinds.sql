-- Kinds among the first $1 available jobs of each queue that no live runner of the queue has a worker for. The
-- runners take what is before and behind such jobs, so that those they cannot take gather at the queue's head. Only
-- queues that a live runner works are looked at, 1,000 of them at the most; a runner that does not say its kinds may
-- know any.
WITH live AS MATERIALIZED (
    SELECT r.queues, r.kinds FROM /* schema */runner AS r WHERE r.leased_until > clock_timestamp()
),
head AS MATERIALIZED (
    SELECT a.queue, h.kind COLLATE "C" AS kind, h.scheduled_at
    FROM (SELECT a.queue COLLATE "C" AS queue FROM /* schema */_available_queues() AS a (queue) LIMIT 1000) AS a
    CROSS JOIN LATERAL /* schema */_available_jobs(a.queue, $1) AS h
    WHERE EXISTS (SELECT FROM live AS l WHERE a.queue = ANY (l.queues))
)
SELECT to_jsonb(k)
FROM (
    SELECT
        h.queue, h.kind, count(*) AS jobs,
        extract(epoch FROM clock_timestamp() - greatest(min(h.scheduled_at), 'epoch'))::double precision AS oldest_age
    FROM head AS h
    WHERE NOT EXISTS (
        SELECT FROM live AS l
        WHERE h.queue = ANY (l.queues) AND (l.kinds IS NULL OR h.kind = ANY (l.kinds))
    )
    GROUP BY h.queue, h.kind
    ORDER BY h.queue, h.kind
    LIMIT 100
) AS k
