-- The job that comes first over several queues, of these kinds. Null: of any.
SELECT j.id, j.queue, j.crashes
FROM /* schema */job AS j
WHERE j.state = 'available' AND j.queue = ANY ($1::text[]) AND (j.kind = ANY ($2::text[])) IS NOT FALSE
    AND (j.expires_at IS NULL OR j.expires_at > statement_timestamp())
ORDER BY j.priority DESC, j.scheduled_at, j.id
LIMIT 1
