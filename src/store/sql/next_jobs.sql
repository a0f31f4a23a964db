-- The jobs that a fetch from the heads of these queues ($1), each up to its free slots ($2), of the given kinds ($3) would
-- take now: the suspects first, then the others in the order of work. Only their ids, so that no row is in the way that
-- cannot be returned. Not those in $4.
SELECT n.id
FROM unnest($1::text[], $2::integer[]) AS w (queue, free)
CROSS JOIN LATERAL (
    (
        SELECT j.id
        FROM /* schema */job AS j
        WHERE j.queue = w.queue AND j.state = 'available' AND j.crashes > 0
            AND j.kind = ANY ($3::text[]) AND j.id <> ALL ($4::uuid[])
        ORDER BY j.crashes, j.priority DESC, j.scheduled_at, j.id
        LIMIT w.free
    )
    UNION ALL
    (
        SELECT j.id
        FROM /* schema */job AS j
        WHERE j.queue = w.queue AND j.state = 'available' AND j.crashes = 0
            AND j.kind = ANY ($3::text[]) AND j.id <> ALL ($4::uuid[])
        ORDER BY j.priority DESC, j.scheduled_at, j.id
        LIMIT w.free
    )
) AS n
