-- The first suspect, the first other and the first job of a group, of the available ones of each queue ($1), of the given kinds ($2), except those in $3. Also
-- a locked one: the server may still be at work on a fetch that was given up, and hold the lock of the job that is too large.
SELECT n.id
FROM unnest($1::text[]) AS w (queue)
CROSS JOIN LATERAL (
    (
        SELECT j.id
        FROM /* schema */job AS j
        WHERE j.queue = w.queue AND j.group_key IS NULL AND j.state = 'available' AND j.crashes > 0
            AND j.kind = ANY ($2::text[]) AND j.id <> ALL ($3::uuid[])
        ORDER BY j.crashes, j.priority DESC, j.scheduled_at, j.id
        LIMIT 1
    )
    UNION ALL
    (
        SELECT j.id
        FROM /* schema */job AS j
        WHERE j.queue = w.queue AND j.group_key IS NULL AND j.state = 'available' AND j.crashes = 0
            AND j.kind = ANY ($2::text[]) AND j.id <> ALL ($3::uuid[])
        ORDER BY j.priority DESC, j.scheduled_at, j.id
        LIMIT 1
    )
    UNION ALL
    (
        SELECT j.id
        FROM /* schema */job AS j
        WHERE j.queue = w.queue AND j.group_key IS NOT NULL AND j.state = 'available'
            AND j.kind = ANY ($2::text[]) AND j.id <> ALL ($3::uuid[])
        ORDER BY j.priority DESC, j.group_key, j.scheduled_at, j.id
        LIMIT 1
    )
) AS n
