-- The next $2 due jobs of a queue, now running.
UPDATE /* schema */plain_job
SET state = 'running'
-- An array, not a join: the planner takes a LIMIT of unknown size for a tenth of the table.
WHERE id = ANY (ARRAY(
    SELECT id
    FROM /* schema */plain_job
    WHERE queue = $1 AND state = 'available' AND run_at <= now()
    ORDER BY run_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING id, args
