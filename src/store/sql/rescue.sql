-- Brings back the jobs of runners whose lease ran out. The attempt is used up; a job out of
-- attempts is discarded, with the reason.
WITH lost AS (
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.state = 'running'
        AND NOT EXISTS (
            SELECT FROM /* schema */runner AS r
            WHERE r.id = j.worker AND r.leased_until > clock_timestamp()
        )
    LIMIT $1
    FOR UPDATE SKIP LOCKED
),
rescued AS (
    UPDATE /* schema */job AS j
    SET state = CASE
            WHEN j.attempt >= j.max_attempts THEN 'discarded' ELSE 'available'
        END::/* schema */job_state,
        finalized_at = CASE WHEN j.attempt >= j.max_attempts THEN clock_timestamp() END,
        scheduled_at = clock_timestamp(),
        errors = j.errors || jsonb_build_object(
            'attempt', j.attempt, 'at', clock_timestamp(),
            'error', 'rescued: the runner died or lost its lease'
        ),
        unique_yielded = j.unique_yielded OR /* schema */enters_claim(
            j.unique_states, 'running',
            CASE WHEN j.attempt >= j.max_attempts THEN 'discarded' ELSE 'available' END::/* schema */job_state
        )
    -- An array, not a join: the planner takes a LIMIT of unknown size for a tenth of the table.
    WHERE j.id = ANY (ARRAY(SELECT l.id FROM lost AS l))
    RETURNING j.id, j.queue, j.unique_yielded
)
SELECT
    count(*) AS rescued,
    /* schema */wake_runners(array_agg(DISTINCT r.queue)) AS woken,
    /* schema */take_claims(array_agg(r.id) FILTER (WHERE r.unique_yielded)) AS discarded
FROM rescued AS r
HAVING count(*) > 0
