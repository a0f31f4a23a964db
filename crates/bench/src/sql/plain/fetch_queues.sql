-- The next $2 due jobs of each of several queues, now running.
UPDATE /* schema */plain_job
SET state = 'running'
WHERE id = ANY (ARRAY(
    SELECT n.id
    FROM unnest($1::text[]) AS q (name)
    CROSS JOIN LATERAL (
        SELECT j.id
        FROM /* schema */plain_job AS j
        WHERE j.queue = q.name AND j.state = 'available' AND j.run_at <= now()
        ORDER BY j.run_at
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) AS n
))
RETURNING id, args
