-- The next jobs, in the order of work, now running. By their places in the table, since the rows
-- are locked: that spares a probe of the primary key each.
WITH next AS MATERIALIZED (
    SELECT ctid
    FROM /* schema */job
    WHERE queue = $1 AND ready
    ORDER BY priority DESC, scheduled_at, id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
UPDATE /* schema */job
SET state = 'running', attempt = attempt + 1, attempted_at = now(), worker = $3
WHERE ctid = ANY (ARRAY(SELECT ctid FROM next))
RETURNING id, args
