-- The jobs of the given kinds ($3), except those in $4, that a fetch from the heads of these queues ($1), each up to its
-- free slots ($2), would take now; and the first sixteen of each sort, locked or not: where a fetch was given up, the
-- server may still be at work on it and have its jobs locked. Only ids, so that no value is read.
SELECT DISTINCT n.id, n.queue COLLATE "C" AS queue
FROM unnest($1::text[], $2::integer[]) AS w (queue, free)
CROSS JOIN LATERAL (
    SELECT s.id, w.queue
    FROM (
        SELECT j.id
        FROM /* schema */job AS j
        WHERE j.queue = w.queue AND j.state = 'available' AND j.crashes > 0 AND j.group_key IS NULL
            AND j.kind = ANY ($3::text[]) AND j.id <> ALL ($4::uuid[])
        ORDER BY j.crashes, j.priority DESC, j.scheduled_at, j.id
        LIMIT greatest(w.free, 16)
    ) AS s
    UNION ALL
    SELECT o.id, w.queue
    FROM (
        SELECT j.id
        FROM /* schema */job AS j
        WHERE j.queue = w.queue AND j.group_key IS NULL AND j.state = 'available' AND j.crashes = 0
            AND j.kind = ANY ($3::text[]) AND j.id <> ALL ($4::uuid[])
        ORDER BY j.priority DESC, j.scheduled_at, j.id
        LIMIT w.free
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS o
    UNION ALL
    SELECT f.id, w.queue
    FROM (
        SELECT j.id
        FROM /* schema */job AS j
        WHERE j.queue = w.queue AND j.group_key IS NULL AND j.state = 'available' AND j.crashes = 0
            AND j.kind = ANY ($3::text[]) AND j.id <> ALL ($4::uuid[])
        ORDER BY j.priority DESC, j.scheduled_at, j.id
        LIMIT 16
    ) AS f
    UNION ALL
    SELECT g.id, w.queue
    FROM (
        SELECT j.id
        FROM /* schema */job AS j
        WHERE j.queue = w.queue AND j.group_key IS NOT NULL AND j.state = 'available'
            AND j.kind = ANY ($3::text[]) AND j.id <> ALL ($4::uuid[])
        ORDER BY j.priority DESC, j.group_key, j.scheduled_at, j.id
        LIMIT 16
    ) AS g
    UNION ALL
    SELECT i.id, w.queue
    FROM unnest(
        CASE
            WHEN EXISTS (
                SELECT FROM /* schema */job AS j
                WHERE j.queue = w.queue AND j.group_key IS NOT NULL AND j.state = 'available'
            ) THEN (
                SELECT g.ids
                FROM /* schema */_jobs_of_groups(w.queue, $3::text[], w.free, 1, false, $4::uuid[], 10000, '', '{}') AS g
            )
        END
    ) AS i (id)
) AS n
