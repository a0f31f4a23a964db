-- Ends runs in any mix of ways. $1 to $4 and the fence are those of complete.sql, $5 to $9 the outcomes. Answers with the
-- jobs whose result counted, by the state that they are in since, and which of these are discarded after all, since
-- another job claims their key. The other runs were stale.
WITH finished AS (
    UPDATE /* schema */job AS j
    SET (state, finalized_at, scheduled_at, attempt, crashes, began, errors, output, progress, unique_yielded) = (
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
            -- A run that ended killed no process. A job given back may not have run.
            CASE WHEN r.outcome IN ('retry', 'snooze') THEN 0 ELSE j.crashes END,
            -- A job in order that is given back from its first run did not begin.
            CASE WHEN r.outcome = 'give_back' AND j.began = j.run THEN NULL ELSE j.began END,
            CASE
                WHEN r.error IS NULL THEN j.errors
                ELSE /* schema */_with_error(j.errors, j.attempt, clock_timestamp(), r.error)
            END,
            coalesce(r.output, j.output),
            coalesce(r.progress, j.progress),
            j.unique_yielded OR /* schema */_enters_claim(j.unique_states, 'running', d.state)
        FROM (
            SELECT
                ($5::text[])[p.place] AS outcome,
                ($6::interval[])[p.place] AS delay,
                ($7::text[])[p.place] AS error,
                ($8::jsonb[])[p.place] AS output,
                ($9::jsonb[])[p.place] AS progress
            FROM (SELECT width_bucket(j.id, $3::uuid[]) AS place OFFSET 0) AS p
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
    WHERE j.id = ANY ($3::uuid[])
        AND (j.state, j.worker, j.run)
            IS NOT DISTINCT FROM ('running', $1::uuid, ($4::integer[])[width_bucket(j.id, $3::uuid[])])
        AND (SELECT set_config('lock_timeout', coalesce($2, current_setting('lock_timeout')), true)) IS NOT NULL
    RETURNING j.id, j.queue, j.state, ($5::text[])[width_bucket(j.id, $3::uuid[])] AS outcome, j.unique_yielded
),
settled AS MATERIALIZED (
    SELECT
        CASE
            WHEN bool_or(f.unique_yielded)
                THEN /* schema */_take_claims(array_agg(f.id) FILTER (WHERE f.unique_yielded))
        END AS discarded,
        -- A job that a runner gives back when it stops is for another runner to work, at once.
        CASE
            WHEN bool_or(f.outcome = 'give_back')
                THEN /* schema */_wake_runners(array_agg(DISTINCT f.queue::text) FILTER (WHERE f.outcome = 'give_back'))
        END,
        -- Reset before a commit that notifies: the limit is not for that wait. It is for the locks of triggers.
        CASE
            WHEN $2::text IS NOT NULL AND bool_or(f.outcome = 'give_back') THEN set_config('lock_timeout', '0', true)
        END
    FROM finished AS f
)
SELECT f.state::text AS state, array_agg(f.id) AS ids, s.discarded
FROM finished AS f
CROSS JOIN settled AS s
GROUP BY f.state, s.discarded
