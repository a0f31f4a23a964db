-- The next $2 jobs of a queue, in the order of work, now running. Rows that are locked keep their ctid, which saves a
-- probe of the primary key for each.
WITH next AS MATERIALIZED (
    SELECT ctid
    FROM /* schema */job
    WHERE queue = $1 AND group_key IS NULL AND state = 'available'
    ORDER BY priority DESC, scheduled_at, id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
UPDATE /* schema */job
SET state = 'running', attempt = attempt + 1, attempted_at = now(), worker = $3
WHERE ctid = ANY (ARRAY(SELECT ctid FROM next))
RETURNING id, args
