-- Completes attempts that return nothing: the common end of a job, in the fewest words. Answers
-- with the jobs that took the result; the others were stale.
WITH finished AS (
    UPDATE /* schema */job AS j
    SET state = 'completed',
        finalized_at = clock_timestamp(),
        unique_yielded = j.unique_yielded OR /* schema */enters_claim(j.unique_states, 'running', 'completed')
    FROM unnest($2::uuid[], $3::smallint[]) AS r (id, attempt)
    WHERE j.id = r.id AND j.state = 'running' AND j.worker = $1 AND j.attempt = r.attempt
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
