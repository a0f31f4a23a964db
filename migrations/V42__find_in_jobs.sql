-- Checks of jobs and claims.

CREATE FUNCTION _find_jobs(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
-- Jobs that wait in a queue are told with their queue.
SELECT
    CASE g.code WHEN 'runner_died' THEN 'job_stuck' WHEN 'not_promoted' THEN 'job_overdue' ELSE 'job_long' END,
    CASE g.code WHEN 'running' THEN 'notice' ELSE _judge(g.oldest_age, thresholds -> 'overdue') END,
    'queue ' || g.queue,
    format(
        '%s for up to %s, such as %s of kind %s: %s', _jobs_text(g.jobs, 999), _age_text(g.oldest_age), g.job, g.kind,
        rtrim(g.reason, '.')
    ),
    CASE g.code
        WHEN 'runner_died' THEN 'Start a runner, of any queue: it rescues them within seconds. With live runners, see service_off and service_idle for the rescuer'
        WHEN 'not_promoted' THEN 'Start a runner, of any queue: it makes due jobs available. With live runners, see service_off and service_idle for the promoter'
        ELSE 'Wait, or cancel it. Runner::timeout bounds how long a job may run'
    END,
    CASE g.code WHEN 'running' THEN _call('cancel_jobs', format('ARRAY[%L::uuid]', g.job)) END,
    _command(CASE g.code WHEN 'running' THEN 'job cancel' ELSE 'job show' END, g.job::text), to_jsonb(g)
FROM (
    SELECT
        s.code COLLATE "C" AS code, s.queue COLLATE "C" AS queue, count(*) AS jobs,
        extract(epoch FROM max(s.stuck_for))::double precision AS oldest_age,
        (array_agg(s.id ORDER BY s.stuck_for DESC, s.id))[1] AS job,
        (array_agg(s.kind ORDER BY s.stuck_for DESC, s.id))[1] AS kind,
        (array_agg(s.reason ORDER BY s.stuck_for DESC, s.id))[1] AS reason
    FROM stuck_jobs(_span(thresholds -> 'running'), _span(thresholds #> '{overdue,0}')) AS s
    WHERE s.code IN ('runner_died', 'not_promoted', 'running')
    GROUP BY s.code COLLATE "C", s.queue COLLATE "C"
    ORDER BY s.code COLLATE "C", s.queue COLLATE "C"
    LIMIT 100
) AS g
$$;
COMMENT ON FUNCTION _find_jobs IS 'Finds queues with jobs of dead runners, jobs that are due and not available, and long runs.';

CREATE FUNCTION _find_suspects(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
WITH seen AS (
    (
        SELECT j.id, j.kind, j.queue, j.crashes, false AS is_discarded
        FROM job AS j
        WHERE j.group_key IS NULL AND j.state = 'available' AND j.crashes > 0
        LIMIT 1000
    )
    UNION ALL
    (
        SELECT j.id, j.kind, j.queue, j.crashes, false
        FROM job AS j
        WHERE j.group_key IS NOT NULL AND j.state = 'available'
        LIMIT 1000
    )
    UNION ALL
    (
        SELECT j.id, j.kind, j.queue, j.crashes, false
        FROM job AS j
        WHERE j.state = 'running'
        LIMIT 1000
    )
    UNION ALL
    SELECT w.id, w.kind, w.queue, w.crashes, w.state = 'discarded' FROM _waiting_and_discarded_jobs(1000) AS w
)
SELECT
    'job_suspect', CASE WHEN g.is_discarded THEN 'notice' ELSE 'warning' END, 'kind ' || g.kind,
    format(
        '%s of queue %s %s after crashes of their runners, up to %s in a row, such as %s', _jobs_text(g.jobs), g.queue,
        CASE WHEN g.is_discarded THEN 'discarded' ELSE 'suspected' END, g.crashes, g.job
    ),
    'See what ends the process: a stack overflow, an abort, or too little memory. The logs of the runner''s machine say it. Each suspect runs alone at first, for longer after each crash, until it ends or is discarded',
    NULL, _command('job show', g.job::text), to_jsonb(g)
FROM (
    SELECT
        s.kind, s.queue, s.is_discarded, count(*) AS jobs, max(s.crashes) AS crashes,
        (array_agg(s.id ORDER BY s.crashes DESC, s.id))[1] AS job
    FROM seen AS s
    WHERE s.crashes >= 2
    GROUP BY s.kind, s.queue, s.is_discarded
    ORDER BY s.kind, s.queue, s.is_discarded
    LIMIT 100
) AS g
$$;
COMMENT ON FUNCTION _find_suspects IS 'Finds kinds with jobs whose runners died twice or more in a row, among 1,000 of each state.';

CREATE FUNCTION _find_expired_jobs(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
SELECT
    'job_expired', 'warning', 'kind ' || g.kind,
    format('%s of queue %s expired before they started in the last hour, such as %s', _jobs_text(g.jobs), g.queue, g.job),
    'Start more runners of the queue, give the jobs more time, or see whether the queue was paused or its limit too low. A retry runs an expired job however late it is',
    NULL, _command('job show', g.job::text), to_jsonb(g)
FROM (
    SELECT d.kind, d.queue, count(*) AS jobs, (array_agg(d.id ORDER BY d.id DESC))[1] AS job
    FROM _waiting_and_discarded_jobs(1000) AS d
    WHERE d.state = 'discarded' AND d.at > statement_timestamp() - interval '1 hour' AND d.last_error ->> 'code' = 'expired'
    GROUP BY d.kind, d.queue
    HAVING count(*) >= 100
    ORDER BY d.kind, d.queue
    LIMIT 100
) AS g
$$;
COMMENT ON FUNCTION _find_expired_jobs IS 'Finds kinds of which at least 100 of the last 1,000 discarded jobs expired within the last hour.';

CREATE FUNCTION _find_rows(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql VOLATILE
AS $$
-- The first ten available jobs of each queue and the first ten of its groups are tried, of those that have been due for a
-- minute, 100 at the most, with 32 MB together as they are stored. Choosing them reads no value that is stored out of line.
WITH discarded AS (
    SELECT u.kind, u.queue, count(*) AS jobs, (array_agg(u.id ORDER BY u.id DESC))[1] AS job,
        left((array_agg(u.last_error ->> 'error' ORDER BY u.id DESC))[1], 300) AS problem
    FROM _waiting_and_discarded_jobs(1000) AS u
    WHERE u.state = 'discarded' AND (u.last_error ->> 'error') COLLATE "C" LIKE 'the job''s row cannot be %'
    GROUP BY u.kind, u.queue
    ORDER BY u.kind, u.queue
    LIMIT 100
),
waiting AS MATERIALIZED (
    SELECT w.id, w.kind, w.queue
    FROM (
        SELECT h.id, h.kind, a.queue, sum(h.bytes) OVER (ORDER BY a.queue, h.place) AS bytes
        FROM (SELECT a.queue COLLATE "C" AS queue FROM _available_queues() AS a (queue) LIMIT 1000) AS a
        CROSS JOIN LATERAL (
            SELECT f.id, f.kind, s.bytes, row_number() OVER () AS place
            FROM _available_jobs(a.queue, 10) AS f
            CROSS JOIN LATERAL (
                SELECT
                    pg_column_size(j.args)::bigint + pg_column_size(j.meta) + pg_column_size(j.errors)
                    + coalesce(pg_column_size(j.output), 0) + coalesce(pg_column_size(j.progress), 0) AS bytes
                FROM job AS j
                WHERE j.id = f.id
            ) AS s
            WHERE f.scheduled_at < clock_timestamp() - interval '1 min'
        ) AS h
    ) AS w
    WHERE w.bytes <= 33554432
    LIMIT 100
)
SELECT
    'job_unreadable', CASE WHEN u.is_discarded THEN 'notice' ELSE 'warning' END, 'kind ' || u.kind,
    format(
        '%s of queue %s %s, such as %s: %s', _jobs_text(u.jobs), u.queue,
        CASE
            WHEN u.is_discarded THEN 'were discarded, since their rows cannot be read'
            ELSE 'cannot be read, so that no runner takes them'
        END,
        u.job, u.problem
    ),
    CASE
        WHEN u.is_discarded THEN 'A row that is too large: insert its job with smaller args. A damaged row: check the disk and the file system, and restore it from a backup. Then delete the discarded job'
        ELSE 'See the log of a runner of the queue: it discards such jobs, and says what keeps it from that. Check the disk and the file system, and restore the row from a backup. Or delete the job'
    END,
    _call('delete_jobs', format('ARRAY[%L::uuid]', u.job)), _command('job delete', u.job::text), to_jsonb(u)
FROM (
    SELECT d.kind, d.queue, true AS is_discarded, d.jobs, d.job, d.problem FROM discarded AS d
    UNION ALL
    SELECT
        w.kind, w.queue, false, 1, t.id,
        coalesce('the job''s row cannot be read: ' || t.problem, 'the text of the job''s values may exceed 1 GB, which no fetch returns')
    FROM try_jobs(ARRAY(SELECT w.id FROM waiting AS w), worker => NULL) AS t
    JOIN waiting AS w ON w.id = t.id
    -- As _set_aside has it.
    WHERE CASE WHEN t.code IS NULL THEN t.bytes > 178956970 ELSE t.bytes IS NULL AND left(t.code, 2) IN ('22', '54', '58', 'XX') END
) AS u
$$;
COMMENT ON FUNCTION _find_rows IS 'Finds jobs whose rows cannot be read, at the heads of queues and among 1,000 discarded ones.';

CREATE FUNCTION _find_attempts(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
-- The usual time of a kind is the one within which 95 of 100 completed runs ended. Looked at are the 2,500 jobs that were
-- inserted before the attempt's job and the 2,500 after it, since a backlog hides the completed jobs from a look at the latest.
-- Fewer than 20 runs say nothing.
WITH running AS MATERIALIZED (
    SELECT j.id, j.kind, j.queue, clock_timestamp() - j.attempted_at AS running_for
    FROM job AS j
    JOIN runner AS r ON r.id = j.worker AND r.leased_until > clock_timestamp()
    WHERE j.state = 'running' AND j.attempted_at <= clock_timestamp() - _span(thresholds -> 'slow')
    LIMIT 1000
),
kind AS MATERIALIZED (
    SELECT r.kind, min(r.id::text COLLATE "C")::uuid AS oldest
    FROM running AS r
    GROUP BY r.kind
    ORDER BY max(r.running_for) DESC
    LIMIT 20
),
usual AS MATERIALIZED (
    SELECT k.kind, u.runs, u.usual
    FROM kind AS k
    CROSS JOIN LATERAL (
        SELECT count(*) AS runs, percentile_disc(0.95) WITHIN GROUP (ORDER BY n.took) AS usual
        FROM (
            SELECT b.finalized_at - b.attempted_at AS took
            FROM (
                SELECT j.kind, j.state, j.attempted_at, j.finalized_at
                FROM job AS j WHERE j.id < k.oldest ORDER BY j.id DESC LIMIT 2500
            ) AS b
            WHERE b.state = 'completed' AND b.kind = k.kind
            UNION ALL
            SELECT a.finalized_at - a.attempted_at
            FROM (
                SELECT j.kind, j.state, j.attempted_at, j.finalized_at
                FROM job AS j WHERE j.id > k.oldest ORDER BY j.id LIMIT 2500
            ) AS a
            WHERE a.state = 'completed' AND a.kind = k.kind
        ) AS n
    ) AS u
    WHERE u.runs >= 20
)
SELECT
    'job_slow', 'warning', 'kind ' || s.kind,
    format(
        '%s running in queue %s for up to %s, such as %s; 95 of 100 of %s completed ones took at most %s; the runner is alive',
        _counted(s.jobs, 'job has been', 'jobs have been'), s.queue, _age_text(s.oldest_age), s.job,
        to_char(s.runs, 'FM999,999'),
        CASE WHEN s.usual < 1 THEN greatest(round(1000 * s.usual), 1) || ' ms' ELSE _age_text(s.usual) END
    ),
    'See what it waits for: a lock, a slow service, or a connection that fell silent, over which no answer comes any more. A timeout (Runner::timeout, WorkerOptions::timeout) ends such attempts and frees their slots. Or cancel the job',
    _call('cancel_jobs', format('ARRAY[%L::uuid]', s.job)), _command('job cancel', s.job::text), to_jsonb(s)
FROM (
    SELECT
        r.kind, r.queue, count(*) AS jobs,
        extract(epoch FROM max(r.running_for))::double precision AS oldest_age,
        extract(epoch FROM u.usual)::double precision AS usual,
        u.runs,
        (array_agg(r.id ORDER BY r.running_for DESC, r.id))[1] AS job
    FROM usual AS u
    JOIN running AS r ON r.kind = u.kind AND r.running_for > u.usual * (thresholds ->> 'slow_factor')::double precision
    GROUP BY r.kind, r.queue, u.usual, u.runs
    ORDER BY max(r.running_for) DESC
) AS s
$$;
COMMENT ON FUNCTION _find_attempts IS 'Finds kinds whose attempts run far longer than is usual, although their runner lives.';

CREATE FUNCTION _find_claims(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
WITH running AS MATERIALIZED (
    SELECT j.id
    FROM (SELECT j.id, j.worker FROM job AS j WHERE j.state = 'running' LIMIT 1000) AS j
    WHERE NOT EXISTS (
        SELECT FROM runner AS r
        WHERE r.id = j.worker AND r.leased_until > clock_timestamp() - _span(thresholds -> 'claim')
    )
),
looked_at AS MATERIALIZED (
    (SELECT j.id FROM job AS j WHERE j.state = 'discarded' ORDER BY j.id DESC LIMIT 1000)
    UNION
    (SELECT j.id FROM job AS j ORDER BY j.id DESC LIMIT 1000)
    UNION
    SELECT r.id FROM running AS r
)
SELECT
    'claim_idle', CASE c.state WHEN 'running' THEN 'warning' ELSE 'notice' END, 'kind ' || c.kind,
    format(
        '%s held by %s jobs for up to %s, and every insert with such a key is a duplicate: %s; such as job %s with key %s',
        _counted(c.keys, 'key is', 'keys are'), c.state, _age_text(c.oldest_age),
        CASE c.state
            WHEN 'pending' THEN 'a pending job waits until it is released'
            WHEN 'running' THEN 'its runner is dead'
            ELSE 'its unique states include that state, until it is deleted'
        END,
        c.holder, to_json(c.unique_key)
    ),
    CASE c.state
        WHEN 'pending' THEN 'Release or delete the job, or free its key if it is needed again'
        ELSE 'Free the key if it is needed again. A scope without this state avoids it'
    END,
    _call('release_claim', quote_literal(c.unique_key)), _command('unique release', c.unique_key), to_jsonb(c)
FROM (
    SELECT
        j.kind, j.state::text AS state, count(*) AS keys,
        (array_agg(j.unique_key ORDER BY j.id))[1] AS unique_key,
        (array_agg(j.id ORDER BY j.id))[1] AS holder,
        _age(min(coalesce(j.finalized_at, j.attempted_at, j.created_at))) AS oldest_age
    FROM looked_at AS l
    JOIN job AS j ON j.id = l.id
    WHERE j.claims
        AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
        AND (
            j.state IN ('cancelled', 'discarded', 'pending')
            OR (j.state = 'running' AND EXISTS (SELECT FROM running AS r WHERE r.id = j.id))
        )
        AND coalesce(j.finalized_at, j.attempted_at, j.created_at) <= clock_timestamp() - _span(thresholds -> 'claim')
    GROUP BY j.kind, j.state
    ORDER BY count(*) DESC, j.kind
    LIMIT 100
) AS c
$$;
COMMENT ON FUNCTION _find_claims IS 'Finds keys claimed by jobs that nothing moves: final ones whose unique states cover that, pending ones, and running ones of dead runners. Reads the last 1,000 discarded jobs, the last 1,000 of all, and 1,000 that run.';
