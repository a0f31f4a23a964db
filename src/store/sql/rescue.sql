-- Brings back up to $1 jobs of runners whose lease ran out, of those in $2; null: of all; and wakes
-- others. The attempt is used up; a job out of attempts is discarded, with the reason. Answers
-- with a row a job, or one without a job, each with the milliseconds until the next lease could run
-- out.
WITH lost AS (
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.state = 'running'
        AND NOT EXISTS (
            SELECT FROM /* schema */runner AS r
            WHERE r.id = j.worker AND r.leased_until > clock_timestamp()
        )
        AND ($2::uuid[] IS NULL OR j.id = ANY ($2))
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
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
            'error', 'rescued: the runner died or lost its lease' || CASE
                WHEN j.attempt >= j.max_attempts THEN format('; discarded: no attempt is left of %s', j.max_attempts)
                ELSE ''
            END
        ),
        unique_yielded = j.unique_yielded OR /* schema */enters_claim(
            j.unique_states, 'running',
            CASE WHEN j.attempt >= j.max_attempts THEN 'discarded' ELSE 'available' END::/* schema */job_state
        )
    -- An array, not a join: the planner takes a LIMIT of unknown size for a tenth of the table.
    WHERE j.id = ANY (ARRAY(SELECT l.id FROM lost AS l))
    RETURNING j.id, j.kind, j.queue, j.attempt, j.state, j.unique_yielded
),
settled AS MATERIALIZED (
    SELECT
        /* schema */wake_runners(array_agg(DISTINCT r.queue)) AS woken,
        /* schema */take_claims(array_agg(r.id) FILTER (WHERE r.unique_yielded)) AS discarded
    FROM rescued AS r
    HAVING count(*) > 0
)
SELECT
    (
        SELECT (extract(epoch FROM least(min(o.leased_until), clock_timestamp() + interval '1 day') - clock_timestamp()) * 1000)::bigint
        FROM /* schema */runner AS o
        WHERE o.leased_until > clock_timestamp()
    ) AS next_in,
    r.id, r.kind, r.queue, r.attempt,
    CASE WHEN r.id = ANY (s.discarded) THEN 'discarded' ELSE r.state::text END AS state
FROM (SELECT) AS always
LEFT JOIN settled AS s ON true
LEFT JOIN rescued AS r ON true
