-- Jobs that wait longer than they should, and why.

CREATE FUNCTION stuck_jobs(
    running_longer_than interval DEFAULT '1 hour',
    waiting_longer_than interval DEFAULT '1 minute',
    look_at integer DEFAULT 1000
)
RETURNS TABLE (
    id uuid, kind text, queue text, state text, attempt smallint, runner uuid,
    since timestamptz, stuck_for interval, code text, reason text, remedy text
)
    LANGUAGE sql STABLE
AS $$
WITH running AS (
    SELECT
        j.id, j.kind, j.queue, j.state, j.attempt, j.worker,
        CASE WHEN l.is_lost THEN coalesce(least(r.leased_until, j.reserved_until), j.attempted_at) ELSE j.attempted_at END AS since,
        NULL::text AS code, NULL::jsonb AS details
    FROM job AS j
    LEFT JOIN runner AS r ON r.id = j.worker
    -- The rescuer comes within ten seconds.
    CROSS JOIN LATERAL (
        SELECT coalesce(
            least(r.leased_until, j.reserved_until) < statement_timestamp() - interval '15 s', r.id IS NULL
        ) AS is_lost
    ) AS l
    WHERE j.state = 'running'
        AND (l.is_lost OR j.attempted_at < statement_timestamp() - running_longer_than)
    LIMIT look_at
),
waiting AS (
    SELECT j.id, j.kind, j.queue, j.state, j.attempt, NULL::uuid AS worker, j.scheduled_at AS since, NULL::text, NULL::jsonb
    FROM job AS j
    WHERE j.state IN ('scheduled', 'retryable') AND j.scheduled_at < statement_timestamp() - waiting_longer_than
    ORDER BY j.scheduled_at
    LIMIT look_at
),
available_queue AS MATERIALIZED (
    SELECT
        n.queue, o.code, o.details, coalesce((o.details ->> 'since')::timestamptz, '-infinity') AS since,
        _has_free_runner(n.queue, waiting_longer_than) AS has_free_runner
    FROM _available_queues() AS n (queue)
    LEFT JOIN LATERAL (
        SELECT q.code, q.details
        FROM _queue_obstacles(n.queue) AS q
        WHERE q.code IN ('queue_paused', 'queue_unworked')
        ORDER BY array_position(_obstacle_codes(), q.code)
        LIMIT 1
    ) AS o ON true
),
passed AS MATERIALIZED (
    SELECT q.queue, s.priority, s.last_scheduled_at
    FROM available_queue AS q
    CROSS JOIN LATERAL _lately_started(q.queue, waiting_longer_than) AS s
),
available AS (
    SELECT
        j.id, j.kind, q.queue, 'available'::job_state, j.attempt, NULL::uuid,
        greatest(j.scheduled_at, j.created_at, q.since), o.code, o.details
    FROM available_queue AS q
    CROSS JOIN LATERAL _available_jobs(q.queue, least(100, look_at)) AS j
    CROSS JOIN LATERAL (
        SELECT q.code, q.details WHERE q.code IS NOT NULL
        UNION ALL
        -- A job of a group may wait for its group.
        SELECT w.code, w.details
        FROM (
            SELECT
            WHERE q.code IS NULL AND NOT j.has_group AND (
                q.has_free_runner OR EXISTS (
                    SELECT FROM passed AS p
                    WHERE p.queue = q.queue
                        AND (
                            p.priority < j.priority
                            OR (p.priority = j.priority AND p.last_scheduled_at > j.scheduled_at)
                        )
                )
            )
        ) AS passes
        CROSS JOIN LATERAL (
            SELECT own.code, own.details FROM _own_obstacles(j.id, q.queue, j.kind) AS own
            UNION ALL
            SELECT 'not_taken', jsonb_build_object('queue', q.queue, 'kind', j.kind)
            LIMIT 1
        ) AS w
    ) AS o
    WHERE greatest(j.scheduled_at, j.created_at, q.since) < statement_timestamp() - waiting_longer_than
    LIMIT look_at
)
SELECT
    s.id, s.kind, s.queue, s.state::text, s.attempt, s.worker, s.since,
    -- A job may be due since '-infinity', which cannot be subtracted.
    CASE WHEN isfinite(s.since) THEN statement_timestamp() - s.since END,
    o.code, _obstacle_reason(o.code, o.details), _obstacle_remedy(o.code, o.details)
FROM (
    SELECT r.id, r.kind, r.queue, r.state, r.attempt, r.worker, r.since, r.code, r.details FROM running AS r
    UNION ALL
    SELECT w.* FROM waiting AS w
    UNION ALL
    SELECT a.* FROM available AS a
) AS s
CROSS JOIN LATERAL (
    SELECT s.code, s.details WHERE s.code IS NOT NULL
    UNION ALL
    SELECT w.code, w.details FROM _state_obstacle(s.id) AS w WHERE s.code IS NULL
) AS o
ORDER BY s.since, s.id
$$;
COMMENT ON FUNCTION stuck_jobs IS 'The rows of the view stuck_job. Returns up to look_at jobs per reason. Of the available jobs of a queue it reads the 100 that would be fetched next. A running job whose runner lives is listed after running_longer_than. A job that is due or available is listed after waiting_longer_than.';

CREATE VIEW stuck_job AS
SELECT s.* FROM stuck_jobs() AS s;
COMMENT ON VIEW stuck_job IS 'One row per job that should have moved and has not, with the reason and the remedy. The job that has been stuck longest comes first. Returns at most 1,000 jobs per reason. The function stuck_jobs() takes other limits. Pending jobs are not listed, because they wait for release_jobs. Reads with the caller''s rights.';
COMMENT ON COLUMN stuck_job.runner IS 'The runner that has the job. Null: the job does not run.';
COMMENT ON COLUMN stuck_job.since IS 'Since when the job is stuck. For a running job: since its runner''s lease ran out, or since it started. For another job: since it could have run, or since its queue was paused.';
COMMENT ON COLUMN stuck_job.stuck_for IS 'The time since then.';
COMMENT ON COLUMN stuck_job.code IS 'Why, as a code of why_waiting: runner_died; running, for over an hour; not_promoted, for over a minute; queue_paused; queue_unworked; kind_unknown; suspect; locked; not_taken, where runners of the queue have room or start later jobs.';
COMMENT ON COLUMN stuck_job.reason IS 'The same as a sentence.';
COMMENT ON COLUMN stuck_job.remedy IS 'The remedy. Often a SQL statement.';
