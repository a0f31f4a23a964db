-- Ends runs in any mix of ways, each only if the job is still in the hands of the worker $1 for this run. Answers with the
-- jobs whose result counted, by the state that they are in since; the others were stale. $2 is how long to wait for a
-- row that is locked; null: as the connection's lock_timeout has it.
--
-- $3 and $4: the ids and run numbers of jobs that completed and whose rows are not kept. $5 and $6: of jobs that
-- completed and have nothing else to store, which is how most runs end. $7 to $13: of all others, with their
-- outcomes. Each set of ids comes sorted: width_bucket finds a row's place in its arrays. A join with the arrays would
-- leave it to the planner, which knows neither their size nor how many jobs run, to compare each result with each job.
WITH patience AS MATERIALIZED (
    -- Set once, before the first row.
    SELECT set_config('lock_timeout', coalesce($2, current_setting('lock_timeout')), true) IS NOT NULL AS is_set
),
deleted AS (
    DELETE FROM /* schema */job AS j
    WHERE j.id = ANY ($3::uuid[])
        -- The fence, in a form that job_running cannot serve, so that the ids alone lead to rows.
        AND (j.state, j.worker, j.run)
            IS NOT DISTINCT FROM ('running', $1::uuid, ($4::integer[])[width_bucket(j.id, $3::uuid[])])
        AND (SELECT p.is_set FROM patience AS p)
    RETURNING j.id
),
completed AS (
    UPDATE /* schema */job AS j
    SET state = 'completed',
        finalized_at = clock_timestamp(),
        unique_yielded = j.unique_yielded OR /* schema */enters_claim(j.unique_states, 'running', 'completed')
    WHERE j.id = ANY ($5::uuid[])
        AND (j.state, j.worker, j.run)
            IS NOT DISTINCT FROM ('running', $1::uuid, ($6::integer[])[width_bucket(j.id, $5::uuid[])])
        AND (SELECT p.is_set FROM patience AS p)
    RETURNING j.id, j.unique_yielded
),
finished AS (
    UPDATE /* schema */job AS j
    SET (state, finalized_at, scheduled_at, attempt, errors, output, progress, unique_yielded) = (
        SELECT
            d.state,
            CASE WHEN d.state IN ('completed', 'cancelled', 'discarded') THEN clock_timestamp() END,
            -- A job given back has no delay, and keeps its place in the queue.
            CASE
                WHEN d.state IN ('available', 'retryable', 'scheduled') THEN coalesce(clock_timestamp() + r.delay, j.scheduled_at)
                ELSE j.scheduled_at
            END,
            -- A snooze and a job given back do not use up the attempt.
            CASE WHEN r.outcome IN ('snooze', 'give_back') THEN j.attempt - 1 ELSE j.attempt END,
            CASE
                WHEN r.error IS NULL THEN j.errors
                ELSE j.errors || jsonb_build_object('attempt', j.attempt, 'at', clock_timestamp(), 'error', r.error)
            END,
            coalesce(r.output, j.output),
            coalesce(r.progress, j.progress),
            j.unique_yielded OR /* schema */enters_claim(j.unique_states, 'running', d.state)
        FROM (
            SELECT
                ($9::text[])[p.place] AS outcome,
                ($10::interval[])[p.place] AS delay,
                ($11::text[])[p.place] AS error,
                ($12::jsonb[])[p.place] AS output,
                ($13::jsonb[])[p.place] AS progress
            FROM (SELECT width_bucket(j.id, $7::uuid[]) AS place OFFSET 0) AS p
            OFFSET 0
        ) AS r
        CROSS JOIN LATERAL (
            SELECT
                CASE
                    WHEN r.outcome = 'complete' THEN 'completed'
                    WHEN r.outcome = 'cancel' THEN 'cancelled'
                    WHEN r.outcome = 'discard' THEN 'discarded'
                    WHEN r.outcome = 'retry' AND j.attempt >= j.max_attempts THEN 'discarded'
                    WHEN r.outcome = 'give_back' OR r.delay <= interval '0' THEN 'available'
                    WHEN r.outcome = 'retry' THEN 'retryable'
                    ELSE 'scheduled'
                END::/* schema */job_state AS state
            OFFSET 0
        ) AS d
    )
    WHERE j.id = ANY ($7::uuid[])
        AND (j.state, j.worker, j.run)
            IS NOT DISTINCT FROM ('running', $1::uuid, ($8::integer[])[width_bucket(j.id, $7::uuid[])])
        AND (SELECT p.is_set FROM patience AS p)
    RETURNING j.id, j.queue, j.state, ($9::text[])[width_bucket(j.id, $7::uuid[])] AS outcome, j.unique_yielded
),
ended AS MATERIALIZED (
    SELECT d.id, 'completed' AS state, false AS unique_yielded, NULL AS given_back_to
    FROM deleted AS d
    UNION ALL
    SELECT c.id, 'completed', c.unique_yielded, NULL
    FROM completed AS c
    UNION ALL
    SELECT f.id, f.state::text, f.unique_yielded, CASE WHEN f.outcome = 'give_back' THEN f.queue END
    FROM finished AS f
),
settled AS MATERIALIZED (
    SELECT
        CASE
            WHEN bool_or(e.unique_yielded)
                THEN /* schema */take_claims(array_agg(e.id) FILTER (WHERE e.unique_yielded))
        END AS discarded,
        -- A job that a runner gives back when it stops is for another runner to work, at once.
        CASE
            WHEN count(e.given_back_to) > 0
                THEN /* schema */wake_runners(array_agg(DISTINCT e.given_back_to) FILTER (WHERE e.given_back_to IS NOT NULL))
        END,
        -- Reset before a commit that notifies: the limit is not for that wait. It is for the locks of triggers.
        CASE
            WHEN $2::text IS NOT NULL AND count(e.given_back_to) > 0 THEN set_config('lock_timeout', '0', true)
        END
    FROM ended AS e
)
SELECT
    CASE WHEN e.id = ANY (s.discarded) THEN 'discarded' ELSE e.state END AS state,
    array_agg(e.id) AS ids
FROM ended AS e
CROSS JOIN settled AS s
GROUP BY 1
