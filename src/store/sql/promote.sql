-- Makes scheduled and retryable jobs available when they are due, and wakes their runners.
WITH due AS (
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.waiting AND j.scheduled_at <= clock_timestamp()
    ORDER BY j.scheduled_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
),
promoted AS (
    UPDATE /* schema */job AS j
    SET state = 'available',
        unique_yielded = j.unique_yielded OR /* schema */enters_claim(j.unique_states, j.state, 'available')
    -- An array, not a join: the planner takes a LIMIT of unknown size for a tenth of the table.
    WHERE j.id = ANY (ARRAY(SELECT d.id FROM due AS d))
    RETURNING j.id, j.queue, j.unique_yielded
)
SELECT
    count(*) AS promoted,
    /* schema */wake_runners(array_agg(DISTINCT p.queue)) AS woken,
    /* schema */take_claims(array_agg(p.id) FILTER (WHERE p.unique_yielded)) AS discarded
FROM promoted AS p
HAVING count(*) > 0
