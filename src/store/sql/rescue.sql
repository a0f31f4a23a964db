-- Takes up to $1 jobs from runners whose lease ran out, of those in $2; null: of all. They come back as suspects, after a
-- back-off. $3 is the number of crashes in a row that discards a job.
--
-- Which of its jobs a dead runner had started is not known. So the first crash uses up no attempt. A crash as a suspect
-- does, but not the last one: the neighbour of a job that kills its process is innocent. From the second crash on a job
-- runs alone, for longer after each further crash. From the third on, the crash discards it where the runner had no other
-- job. Beside jobs that run for very long it is never alone. So from the sixth on, the crash also discards it where the
-- runner started no other job later, or within half a minute before it.
--
-- A job with one attempt was fetched to be started at once. It is not started again.
--
-- Answers with a row a job, or one without a job, each with the milliseconds until the next lease could run out.
WITH lost AS (
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.state = 'running'
        AND NOT EXISTS (
            SELECT FROM /* schema */runner AS r
            WHERE r.id = j.worker AND r.leased_until > clock_timestamp()
        )
        AND ($2::uuid[] IS NULL OR j.id = ANY ($2))
    -- Before the jobs that were started after them are taken from the runner.
    ORDER BY j.crashes DESC
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
),
rescued AS (
    UPDATE /* schema */job AS j
    SET (state, finalized_at, scheduled_at, attempt, crashes, errors, unique_yielded) = (
        SELECT
            s.state,
            CASE WHEN s.is_over THEN clock_timestamp() END,
            CASE
                WHEN s.is_over THEN j.scheduled_at
                ELSE clock_timestamp() + interval '1 s' * power(5, least(s.crashes, 3) - 1)
            END,
            CASE
                WHEN s.is_over THEN j.attempt
                WHEN j.crashes = 0 THEN greatest(j.attempt - 1, 0)
                ELSE greatest(least(j.attempt, j.max_attempts - 1), 0)
            END,
            s.crashes,
            /* schema */_with_error(
                j.errors,
                j.attempt,
                clock_timestamp(),
                'rescued: the runner died or lost its lease' || coalesce('; discarded: ' || s.reason, '')
            ),
            j.unique_yielded OR /* schema */_enters_claim(j.unique_states, 'running', s.state)
        FROM (
            SELECT
                d.reason,
                d.reason IS NOT NULL AS is_over,
                CASE WHEN d.reason IS NULL THEN 'retryable' ELSE 'discarded' END::/* schema */job_state AS state,
                least(j.crashes + 1, 32767) AS crashes
            FROM (
                SELECT
                    CASE
                        WHEN j.max_attempts = 1 THEN 'a job with one attempt is not started again'
                        WHEN j.crashes >= $3::integer - 1 AND NOT EXISTS (
                            SELECT FROM /* schema */job AS o
                            WHERE o.state = 'running' AND o.worker = j.worker AND o.id <> j.id
                                AND (j.crashes < $3::integer + 2 OR o.attempted_at > j.attempted_at - interval '30 s')
                        ) THEN format('its runner died %s times in a row while it had the job', j.crashes + 1)
                    END AS reason
                OFFSET 0
            ) AS d
            OFFSET 0
        ) AS s
    )
    -- An array, not a join: the planner takes a LIMIT of unknown size for a tenth of the table.
    WHERE j.id = ANY (ARRAY(SELECT l.id FROM lost AS l))
    RETURNING
        j.id, j.kind, j.queue, j.state, j.unique_yielded,
        (j.errors -> -1 ->> 'attempt')::smallint AS attempt, j.errors -> -1 ->> 'error' AS error
),
settled AS MATERIALIZED (
    SELECT /* schema */_take_claims(array_agg(r.id) FILTER (WHERE r.unique_yielded)) AS discarded
    FROM rescued AS r
    HAVING count(*) > 0
)
SELECT
    (
        SELECT (extract(epoch FROM least(min(o.leased_until), clock_timestamp() + interval '1 day') - clock_timestamp()) * 1000)::bigint
        FROM /* schema */runner AS o
        WHERE o.leased_until > clock_timestamp()
    ) AS next_in,
    r.id, r.kind, r.queue, r.attempt, r.error,
    CASE WHEN r.id = ANY (s.discarded) THEN 'discarded' ELSE r.state::text END AS state
FROM (SELECT) AS always
LEFT JOIN settled AS s ON true
LEFT JOIN rescued AS r ON true
