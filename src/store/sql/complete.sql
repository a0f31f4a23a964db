-- Completes runs that have nothing to store but that, which is how most runs end. Each counts only if the job is still in
-- the hands of the worker $1 for this run: $3 and $4 are ids and run numbers. $2 is how long to wait for a row that is
-- locked. Null: as the connection's lock_timeout has it. Answers with the jobs that are completed, and which of these are
-- discarded after all, since another job claims their key. The other runs were stale.
--
-- The ids come sorted: width_bucket finds a row's place in the arrays. A join with the arrays would leave it to the
-- planner, which knows neither their size nor how many jobs run, to compare each result with each job.
WITH completed AS (
    UPDATE /* schema */job AS j
    SET state = 'completed',
        finalized_at = clock_timestamp(),
        unique_yielded = j.unique_yielded OR /* schema */_enters_claim(j.unique_states, 'running', 'completed')
    WHERE j.id = ANY ($3::uuid[])
        -- The fence, in a form that job_running cannot serve, so that the ids alone lead to rows.
        AND (j.state, j.worker, j.run)
            IS NOT DISTINCT FROM ('running', $1::uuid, ($4::integer[])[width_bucket(j.id, $3::uuid[])])
        -- Asked once, before the first row.
        AND (SELECT set_config('lock_timeout', coalesce($2, current_setting('lock_timeout')), true)) IS NOT NULL
    RETURNING j.id, j.unique_yielded
)
SELECT
    'completed' AS state,
    coalesce(array_agg(c.id), '{}') AS ids,
    CASE
        WHEN bool_or(c.unique_yielded)
            THEN /* schema */_take_claims(array_agg(c.id) FILTER (WHERE c.unique_yielded))
    END AS discarded
FROM completed AS c
