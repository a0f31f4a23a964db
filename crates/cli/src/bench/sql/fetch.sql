-- The next jobs, in the order of work, now running.
WITH next AS MATERIALIZED (
    SELECT id
    FROM /* schema */job
    WHERE queue = $1 AND ready
    ORDER BY priority DESC, scheduled_at, id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
UPDATE /* schema */job
SET state = 'running', attempt = attempt + 1, attempted_at = now(), worker = $3
WHERE id = ANY (ARRAY(SELECT id FROM next))
RETURNING id, args
