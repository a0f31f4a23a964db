-- The jobs that a fetch from the heads of these queues ($1), each up to its free slots ($2), of the given kinds ($3) would
-- take now: the suspects first, then the others in the order of work. Only their ids, so that no row is in the way that
-- cannot be returned. Not those in $4. Locked jobs are skipped as a fetch skips them: else they would stand for those that
-- it takes.
SELECT n.id
FROM unnest($1::text[], $2::integer[]) AS w (queue, free)
CROSS JOIN LATERAL (
    SELECT s.id
    FROM (
        SELECT j.id
        FROM /* schema */job AS j
        WHERE j.queue = w.queue AND j.state = 'available' AND j.crashes > 0 AND j.group_key IS NULL
            AND j.kind = ANY ($3::text[]) AND j.id <> ALL ($4::uuid[])
        ORDER BY j.crashes, j.priority DESC, j.scheduled_at, j.id
        LIMIT w.free
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS s
    UNION ALL
    SELECT o.id
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
    SELECT i.id
    FROM unnest(
        CASE
            WHEN EXISTS (
                SELECT FROM /* schema */job AS j
                WHERE j.queue = w.queue AND j.group_key IS NOT NULL AND j.state = 'available'
            ) THEN (
                SELECT g.ids
                FROM /* schema */jobs_of_groups(w.queue, $3::text[], w.free, 1, false, $4::uuid[], 10000, '', '{}') AS g
            )
        END
    ) AS i (id)
) AS n
