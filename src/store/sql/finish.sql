-- Ends attempts, each only if it is still in the hands of the worker and the attempt that speak.
-- Answers with the jobs that took the result; the others were stale.
WITH result AS (
    SELECT r.id, r.attempt, r.outcome, r.delay, r.error, r.output
    FROM unnest(
        $2::uuid[], $3::smallint[], $4::text[], $5::interval[], $6::text[], $7::jsonb[]
    ) AS r (id, attempt, outcome, delay, error, output)
),
decided AS (
    SELECT
        r.*,
        CASE
            WHEN r.outcome = 'complete' THEN 'completed'
            WHEN r.outcome = 'cancel' THEN 'cancelled'
            WHEN r.outcome = 'discard' THEN 'discarded'
            WHEN r.outcome = 'retry' AND j.attempt >= j.max_attempts THEN 'discarded'
            WHEN r.delay <= interval '0' THEN 'available'
            WHEN r.outcome = 'retry' THEN 'retryable'
            ELSE 'scheduled'
        END::/* schema */job_state AS state
    FROM result AS r
    JOIN /* schema */job AS j ON j.id = r.id
),
finished AS (
    UPDATE /* schema */job AS j
    SET state = d.state,
        finalized_at = CASE
            WHEN d.state IN ('completed', 'cancelled', 'discarded') THEN clock_timestamp()
        END,
        scheduled_at = CASE
            WHEN d.state IN ('available', 'retryable', 'scheduled') THEN clock_timestamp() + d.delay
            ELSE j.scheduled_at
        END,
        -- A snooze and a job given back do not use up the attempt.
        attempt = CASE WHEN d.outcome = 'snooze' THEN j.attempt - 1 ELSE j.attempt END,
        errors = CASE
            WHEN d.error IS NULL THEN j.errors
            ELSE j.errors || jsonb_build_object('attempt', j.attempt, 'at', clock_timestamp(), 'error', d.error)
        END,
        output = coalesce(d.output, j.output),
        unique_yielded = j.unique_yielded OR /* schema */enters_claim(j.unique_states, 'running', d.state)
    FROM decided AS d
    WHERE j.id = d.id AND j.state = 'running' AND j.worker = $1 AND j.attempt = d.attempt
    RETURNING j.id, j.unique_yielded
),
settled AS MATERIALIZED (
    SELECT /* schema */take_claims(array_agg(f.id))
    FROM finished AS f
    WHERE f.unique_yielded
)
SELECT f.id
FROM finished AS f
CROSS JOIN settled AS s
