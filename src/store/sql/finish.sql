-- Ends runs, each only if the job is still in the hands of its worker for this run.
-- Answers with the jobs that took the result, and what became of them; the others were stale. The
-- ids come sorted, and width_bucket finds a row's place in the arrays, for the reason that complete.sql gives.
WITH finished AS (
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
                ($4::text[])[p.place] AS outcome,
                ($5::interval[])[p.place] AS delay,
                ($6::text[])[p.place] AS error,
                ($7::jsonb[])[p.place] AS output,
                ($9::jsonb[])[p.place] AS progress
            FROM (SELECT width_bucket(j.id, $2::uuid[]) AS place OFFSET 0) AS p
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
    WHERE j.id = ANY ($2::uuid[])
        -- The fence, in a form that job_running cannot serve, so that the ids alone lead to rows.
        AND (j.state, j.worker, j.run)
            IS NOT DISTINCT FROM ('running', $1::uuid, ($3::integer[])[width_bucket(j.id, $2::uuid[])])
        -- Asked once, before the first row: how long to wait for a row that somebody has locked.
        AND (SELECT set_config('lock_timeout', coalesce($8, current_setting('lock_timeout')), true)) IS NOT NULL
    RETURNING j.id, j.queue, j.state, ($4::text[])[width_bucket(j.id, $2::uuid[])] AS outcome, j.unique_yielded
),
settled AS MATERIALIZED (
    SELECT
        CASE
            WHEN bool_or(f.unique_yielded)
                THEN /* schema */take_claims(array_agg(f.id) FILTER (WHERE f.unique_yielded))
        END AS discarded,
        -- What a runner gives back when it stops is another's to work, at once.
        CASE
            WHEN bool_or(f.outcome = 'give_back')
                THEN /* schema */wake_runners(array_agg(DISTINCT f.queue) FILTER (WHERE f.outcome = 'give_back'))
        END,
        -- Asked when all are changed: what a commit that notifies waits for is not what patience is for.
        CASE WHEN $8::text IS NOT NULL THEN set_config('lock_timeout', '0', true) END
    FROM finished AS f
)
SELECT f.id, CASE WHEN f.id = ANY (s.discarded) THEN 'discarded' ELSE f.state::text END AS state
FROM finished AS f
CROSS JOIN settled AS s
