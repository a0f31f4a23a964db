-- The next $2 jobs of each of several queues, in the order of work, now running.
WITH next AS MATERIALIZED (
    SELECT n.ctid
    FROM unnest($1::text[]) AS q (name)
    CROSS JOIN LATERAL (
        SELECT j.ctid
        FROM /* schema */job AS j
        WHERE j.queue = q.name AND j.group_key IS NULL AND j.state = 'available'
        ORDER BY j.priority DESC, j.scheduled_at, j.id
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) AS n
)
UPDATE /* schema */job
SET state = 'running', attempt = attempt + 1, attempted_at = now(), worker = $3
WHERE ctid = ANY (ARRAY(SELECT ctid FROM next))
RETURNING id, args
