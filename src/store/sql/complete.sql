-- Completes attempts that return nothing: the common end of a job, in the fewest words. Answers
-- with the jobs that took the result (null: all of them); the others were stale. All have one run number ($3), or
-- the ids come sorted: width_bucket then finds a row's place in the arrays. A join with the arrays would leave it
-- to the planner, which knows neither their size nor how much runs, to compare each result with each job.
WITH finished AS (
    UPDATE /* schema */job AS j
    SET state = 'completed',
        finalized_at = clock_timestamp(),
        unique_yielded = j.unique_yielded OR /* schema */enters_claim(j.unique_states, 'running', 'completed')
    WHERE j.id = ANY ($2::uuid[])
        -- The fence, in a form that job_running cannot serve, so that the ids alone lead to rows.
        AND (j.state, j.worker, j.run)
            IS NOT DISTINCT FROM (
                'running', $1::uuid, coalesce($3::integer, ($4::integer[])[width_bucket(j.id, $2::uuid[])])
            )
        -- Asked once, before the first row: how long to wait for a row that somebody has locked.
        AND (SELECT set_config('lock_timeout', coalesce($5, current_setting('lock_timeout')), true)) IS NOT NULL
    RETURNING j.id, j.unique_yielded
)
SELECT
    CASE WHEN count(*) < cardinality($2::uuid[]) THEN coalesce(array_agg(f.id), '{}') END AS counted,
    CASE
        WHEN bool_or(f.unique_yielded)
            THEN /* schema */take_claims(array_agg(f.id) FILTER (WHERE f.unique_yielded))
    END AS discarded
FROM finished AS f
