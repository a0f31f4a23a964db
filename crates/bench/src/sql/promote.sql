-- Makes up to $1 scheduled jobs available when they are due.
UPDATE /* schema */job
SET state = 'available'
WHERE id = ANY (ARRAY(
    SELECT id
    FROM /* schema */job
    WHERE state IN ('scheduled', 'retryable') AND scheduled_at <= now()
    ORDER BY scheduled_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
))
