-- Jobs that wait longer than they should, and why.

CREATE FUNCTION stuck_jobs(
    running_longer_than interval DEFAULT '1 hour',
    waiting_longer_than interval DEFAULT '1 minute',
    look_at integer DEFAULT 1000
)
RETURNS TABLE (
    id uuid, kind text, queue text, state text, attempt smallint, runner uuid,
    since timestamptz, stuck_for interval, reason text, remedy text
)
    LANGUAGE sql STABLE
    SET search_path FROM CURRENT
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
WITH RECURSIVE live_runner AS MATERIALIZED (
    SELECT r.id, r.queues, r.started_at FROM runner AS r WHERE r.leased_until > statement_timestamp()
),
running AS (
    SELECT
        j.id, j.kind, j.queue, 'running' AS state, j.attempt, j.worker,
        CASE WHEN l.is_lost THEN coalesce(r.leased_until, j.attempted_at) ELSE j.attempted_at END AS since,
        CASE WHEN l.is_lost THEN 'its runner died' ELSE 'runs long' END AS reason,
        CASE
            WHEN l.is_lost THEN 'Start a runner: it takes the jobs of dead ones back within seconds.'
            ELSE format('Wait, or: SELECT * FROM %I.cancel_jobs(ARRAY[%L::uuid]);', current_schema(), j.id)
        END AS remedy
    FROM job AS j
    LEFT JOIN runner AS r ON r.id = j.worker
    -- The rescuer comes within ten seconds.
    CROSS JOIN LATERAL (
        SELECT coalesce(r.leased_until < statement_timestamp() - interval '15 s', r.id IS NULL) AS is_lost
    ) AS l
    WHERE j.state = 'running'
        AND (l.is_lost OR j.attempted_at < statement_timestamp() - running_longer_than)
    LIMIT look_at
),
waiting AS (
    SELECT
        j.id, j.kind, j.queue, j.state::text, j.attempt, NULL::uuid, j.scheduled_at,
        'is due and not promoted',
        CASE
            WHEN NOT EXISTS (SELECT FROM live_runner) THEN 'Start a runner: one of them makes due jobs available.'
            ELSE format('See which runner has the service: SELECT * FROM %I.maintenance WHERE service = ''promoter'';', current_schema())
        END
    FROM job AS j
    WHERE j.state IN ('scheduled', 'retryable') AND j.scheduled_at < statement_timestamp() - waiting_longer_than
    ORDER BY j.scheduled_at
    LIMIT look_at
),
available_queue AS MATERIALIZED (
    SELECT
        n.queue, q.paused_at,
        EXISTS (SELECT FROM live_runner AS r WHERE n.queue = ANY (r.queues)) AS is_worked,
        -- A runner that has none of the queue's jobs would take the next one, if it knew its kind. So
        -- would one that has started a job from behind it. A runner is not free while the queue is at its limit, is held, or
        -- has no token of its rate.
        NOT coalesce(c.running >= q.max_running, false)
        AND NOT coalesce(
            greatest(q.held_until, _next_token_at(q.rate_count, q.rate_period, q.rate_burst, q.rate_full_at))
                > statement_timestamp() - waiting_longer_than,
            false
        ) AND EXISTS (
            SELECT FROM live_runner AS r
            WHERE n.queue = ANY (r.queues)
                AND r.started_at < statement_timestamp() - waiting_longer_than
                AND NOT EXISTS (
                    SELECT FROM job AS j WHERE j.queue = n.queue AND j.state = 'running' AND j.worker = r.id
                )
        ) AS has_free_runner
    FROM _available_queues() AS n (queue)
    LEFT JOIN queue AS q ON q.name = n.queue
    LEFT JOIN LATERAL (
        SELECT count(*) AS running
        FROM (
            SELECT FROM job AS j WHERE j.queue = n.queue AND j.state = 'running' LIMIT q.max_running
        ) AS r
        WHERE q.max_running IS NOT NULL
    ) AS c ON true
),
passing AS MATERIALIZED (
    SELECT j.queue, j.priority, max(j.scheduled_at) AS last_scheduled_at
    FROM job AS j
    WHERE j.state = 'running' AND j.attempted_at > statement_timestamp() - waiting_longer_than
    GROUP BY j.queue, j.priority
),
available AS (
    SELECT
        j.id, j.kind, q.queue, 'available', j.attempt, NULL::uuid,
        greatest(j.scheduled_at, j.created_at, q.paused_at),
        w.reason,
        CASE w.reason
            WHEN 'its queue is paused' THEN format('SELECT * FROM %I.resume_queue(%L);', current_schema(), q.queue)
            WHEN 'no runner works its queue' THEN format('Start a runner that works queue %s.', to_json(q.queue))
            ELSE format('Start a runner of queue %s that knows kind %s.', to_json(q.queue), to_json(j.kind))
        END
    FROM available_queue AS q
    CROSS JOIN LATERAL _available_jobs(q.queue, least(100, look_at)) AS j
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN q.paused_at IS NOT NULL THEN 'its queue is paused'
            WHEN NOT q.is_worked THEN 'no runner works its queue'
            -- A job of a group may wait for its group.
            WHEN NOT j.has_group AND (q.has_free_runner OR EXISTS (
                SELECT FROM passing AS p
                WHERE p.queue = q.queue
                    AND (
                        p.priority < j.priority
                        OR (p.priority = j.priority AND p.last_scheduled_at > j.scheduled_at)
                    )
            )) THEN 'no runner takes it'
        END AS reason
    ) AS w
    WHERE w.reason IS NOT NULL
        AND greatest(j.scheduled_at, j.created_at, q.paused_at) < statement_timestamp() - waiting_longer_than
    LIMIT look_at
)
SELECT
    s.id, s.kind, s.queue, s.state, s.attempt, s.worker, s.since,
    -- A job may be due since '-infinity', which cannot be subtracted.
    CASE WHEN isfinite(s.since) THEN statement_timestamp() - s.since END,
    s.reason, s.remedy
FROM (
    SELECT r.id, r.kind, r.queue, r.state, r.attempt, r.worker, r.since, r.reason, r.remedy FROM running AS r
    UNION ALL
    SELECT w.* FROM waiting AS w
    UNION ALL
    SELECT a.* FROM available AS a
) AS s
ORDER BY s.since, s.id
$$;
COMMENT ON FUNCTION stuck_jobs(interval, interval, integer) IS
    'The rows of the view stuck_job. Returns up to look_at jobs per reason. Of the available jobs of a queue it reads the 100 that would be fetched next. A running job whose runner lives is listed after running_longer_than. A job that is due or available is listed after waiting_longer_than.';

CREATE VIEW stuck_job AS
SELECT s.id, s.kind, s.queue, s.state, s.attempt, s.runner, s.since, s.stuck_for, s.reason, s.remedy
FROM stuck_jobs() AS s;
COMMENT ON VIEW stuck_job IS
    'One row per job that should have moved and has not, with the reason and the remedy. The job that has been stuck longest comes first. Returns at most 1,000 jobs per reason. The function stuck_jobs() takes other limits. Pending jobs are not listed, because they wait for release_jobs. Reads with the caller''s rights.';
COMMENT ON COLUMN stuck_job.id IS 'The id of the job.';
COMMENT ON COLUMN stuck_job.kind IS 'The kind of the job.';
COMMENT ON COLUMN stuck_job.queue IS 'The queue of the job.';
COMMENT ON COLUMN stuck_job.state IS 'The state of the job.';
COMMENT ON COLUMN stuck_job.attempt IS 'The number of started attempts.';
COMMENT ON COLUMN stuck_job.runner IS 'The runner that has the job. Null: the job does not run.';
COMMENT ON COLUMN stuck_job.since IS 'Since when the job is stuck. For a running job: since its runner''s lease ran out, or since it started. For another job: since it could have run, or since its queue was paused.';
COMMENT ON COLUMN stuck_job.stuck_for IS 'The time since then.';
COMMENT ON COLUMN stuck_job.reason IS
    'its runner died; runs long: for over an hour; is due and not promoted: for over a minute; its queue is paused; no runner works its queue; no runner takes it: runners of the queue have room or start later jobs, so they do not know its kind.';
COMMENT ON COLUMN stuck_job.remedy IS 'What to do. Often a SQL statement.';
