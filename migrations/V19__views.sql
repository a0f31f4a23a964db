-- Views of jobs and queues, for people.

CREATE FUNCTION _available_queues() RETURNS SETOF text
    LANGUAGE sql STABLE ROWS 100
AS $$
-- A loose index scan: two probes for each queue.
WITH RECURSIVE visited AS (
    SELECT '' COLLATE "C" AS queue
    UNION ALL
    SELECT least(n.without_group, n.with_groups)
    FROM visited AS v
    CROSS JOIN LATERAL (
        SELECT
            (
                SELECT j.queue::text FROM job AS j
                WHERE j.group_key IS NULL AND j.state = 'available' AND j.queue > v.queue
                ORDER BY j.queue
                LIMIT 1
            ) AS without_group,
            (
                SELECT j.queue::text FROM job AS j
                WHERE j.group_key IS NOT NULL AND j.state = 'available' AND j.queue > v.queue
                ORDER BY j.queue
                LIMIT 1
            ) AS with_groups
    ) AS n
    WHERE v.queue IS NOT NULL
)
SELECT v.queue FROM visited AS v WHERE v.queue <> ''
$$;
COMMENT ON FUNCTION _available_queues IS 'The queues that have available jobs.';

CREATE FUNCTION _oldest_available(queue_name text) RETURNS timestamptz
    LANGUAGE sql STABLE
AS $$
-- The first ones of each priority: those that have waited longest are among them, but where many were inserted
-- with a time that had passed.
WITH RECURSIVE first AS (
    SELECT 32768 AS priority
    UNION ALL
    SELECT b.priority::integer
    FROM first AS f
    CROSS JOIN LATERAL (
        SELECT j.priority
        FROM job AS j
        WHERE j.queue = queue_name AND j.group_key IS NULL AND j.state = 'available' AND j.priority < f.priority
        ORDER BY j.priority DESC, j.scheduled_at
        LIMIT 1
    ) AS b
)
SELECT min(s.since) FILTER (WHERE isfinite(s.since)) AS oldest
FROM (
    SELECT greatest(j.scheduled_at, j.created_at) AS since
    FROM (SELECT f.priority FROM first AS f LIMIT 1001) AS f
    CROSS JOIN LATERAL (
        SELECT j.scheduled_at, j.created_at
        FROM job AS j
        WHERE j.queue = queue_name AND j.group_key IS NULL AND j.state = 'available' AND j.priority = f.priority
        ORDER BY j.priority DESC, j.scheduled_at
        LIMIT 10
    ) AS j
    UNION ALL
    -- Groups are in the order of their keys, so this is the oldest of the first thousand.
    SELECT greatest(g.scheduled_at, g.created_at)
    FROM (
        SELECT j.scheduled_at, j.created_at
        FROM job AS j
        WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available'
        ORDER BY j.priority DESC, j.group_key, j.scheduled_at
        LIMIT 1000
    ) AS g
) AS s
$$;
COMMENT ON FUNCTION _oldest_available IS 'When the oldest of the first available jobs of a queue could first have run. Null: none is available.';

-- A job that was inserted with a past scheduled_at counts as waiting since its insert.
CREATE FUNCTION queues(count_to integer DEFAULT 10000, look_at integer DEFAULT 20000)
RETURNS TABLE (
    name text, paused_at timestamptz, max_running integer, runners bigint,
    available bigint, running bigint, scheduled bigint, retryable bigint,
    discarded bigint, pending bigint, completed bigint, cancelled bigint,
    waiting_are_all boolean, discarded_are_all boolean, last_are_all boolean,
    oldest_available_age interval,
    rate_count integer, rate_period interval, rate_burst integer, held_until timestamptz, status text
)
    LANGUAGE sql STABLE
AS $$
-- Available and running jobs are counted queue by queue, by index. Of the others, the first waiting
-- ones, the last discarded ones and the last of all are looked at.
WITH RECURSIVE running AS (
    -- A loose index scan: one probe for each queue.
    SELECT '' COLLATE "C" AS queue
    UNION ALL
    SELECT n.queue::text
    FROM running AS r
    CROSS JOIN LATERAL (
        SELECT j.queue
        FROM job AS j
        WHERE j.state = 'running' AND j.queue > r.queue
        ORDER BY j.queue
        LIMIT 1
    ) AS n
),
looked_at (sort, queue, state) AS (
    (
        SELECT 'waiting', j.queue, j.state
        FROM job AS j
        WHERE j.state IN ('scheduled', 'retryable')
        ORDER BY j.scheduled_at
        LIMIT look_at
    )
    UNION ALL
    (SELECT 'discarded', j.queue, j.state FROM job AS j WHERE j.state = 'discarded' ORDER BY j.id DESC LIMIT look_at)
    UNION ALL
    (SELECT 'last', j.queue, j.state FROM job AS j ORDER BY j.id DESC LIMIT look_at)
),
counted AS (
    SELECT
        l.queue,
        count(*) FILTER (WHERE l.sort = 'waiting' AND l.state = 'scheduled') AS scheduled,
        count(*) FILTER (WHERE l.sort = 'waiting' AND l.state = 'retryable') AS retryable,
        count(*) FILTER (WHERE l.sort = 'discarded') AS discarded,
        count(*) FILTER (WHERE l.sort = 'last' AND l.state = 'pending') AS pending,
        count(*) FILTER (WHERE l.sort = 'last' AND l.state = 'completed') AS completed,
        count(*) FILTER (WHERE l.sort = 'last' AND l.state = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE l.sort = 'last') AS last
    FROM looked_at AS l
    GROUP BY l.queue
),
worked AS (
    SELECT u.queue, count(*) AS runners
    FROM runner AS r
    CROSS JOIN LATERAL unnest(r.queues) AS u (queue)
    WHERE r.leased_until > clock_timestamp()
    GROUP BY u.queue
),
named AS (
    SELECT q.name FROM queue AS q
    UNION SELECT w.queue FROM worked AS w
    UNION SELECT a.name FROM _available_queues() AS a (name)
    UNION SELECT r.queue FROM running AS r WHERE r.queue <> ''
    UNION SELECT c.queue FROM counted AS c
)
SELECT
    n.name, q.paused_at, q.max_running, coalesce(w.runners, 0) AS runners,
    a.available, r.running,
    coalesce(c.scheduled, 0) AS scheduled, coalesce(c.retryable, 0) AS retryable, coalesce(c.discarded, 0) AS discarded,
    coalesce(c.pending, 0) AS pending, coalesce(c.completed, 0) AS completed, coalesce(c.cancelled, 0) AS cancelled,
    s.waiting_are_all, s.discarded_are_all, s.last_are_all,
    -- greatest alone would ignore a null.
    CASE WHEN o.oldest IS NOT NULL THEN greatest(clock_timestamp() - o.oldest, interval '0') END,
    q.rate_count, q.rate_period, q.rate_burst,
    h.held_until,
    CASE
        WHEN q.paused_at IS NOT NULL THEN 'paused'
        WHEN h.held_until IS NOT NULL THEN 'held'
        WHEN w.runners IS NULL AND (a.available > 0 OR r.running > 0 OR c.scheduled + c.retryable > 0) THEN 'no runner'
        WHEN r.running >= q.max_running THEN 'at its limit'
        WHEN r.running > 0 THEN 'working'
        WHEN a.available > 0 THEN 'waiting'
        ELSE 'idle'
    END
FROM named AS n
LEFT JOIN queue AS q ON q.name = n.name
LEFT JOIN worked AS w ON w.queue = n.name
LEFT JOIN counted AS c ON c.queue = n.name
CROSS JOIN (
    SELECT
        coalesce(sum(l.scheduled + l.retryable), 0) < look_at AS waiting_are_all,
        coalesce(sum(l.discarded), 0) < look_at AS discarded_are_all,
        coalesce(sum(l.last), 0) < look_at AS last_are_all
    FROM counted AS l
) AS s
CROSS JOIN LATERAL (
    SELECT count(*) AS available
    FROM (SELECT FROM _available_jobs(n.name, count_to + 1) LIMIT count_to + 1) AS c
) AS a
CROSS JOIN LATERAL (
    SELECT count(*) AS running
    FROM (SELECT FROM job AS j WHERE j.queue = n.name AND j.state = 'running' LIMIT count_to + 1) AS c
) AS r
CROSS JOIN LATERAL (SELECT _oldest_available(n.name) AS oldest) AS o
CROSS JOIN LATERAL (SELECT CASE WHEN q.held_until > clock_timestamp() THEN q.held_until END AS held_until) AS h
ORDER BY n.name
$$;
COMMENT ON FUNCTION queues IS 'One row per queue that has settings, a live runner or jobs. The cost does not grow with the number of jobs. available and running are counted up to count_to + 1, scheduled and retryable among the look_at jobs that are due first, discarded among the last look_at discarded ones, the others among the last look_at jobs. waiting_are_all, discarded_are_all and last_are_all say whether these were all.';

CREATE FUNCTION _waiting_and_discarded_jobs(look_at integer) RETURNS TABLE (
    id uuid, kind short_name, queue short_name, state job_state, attempt attempt_count, crashes attempt_count,
    created_at timestamptz, at timestamptz, last_error jsonb
)
    LANGUAGE sql STABLE
-- A function with settings cannot be inlined. Inlined, it reads only the columns that the calling statement needs.
BEGIN ATOMIC
    (
        SELECT j.id, j.kind, j.queue, j.state, j.attempt, j.crashes, j.created_at, j.attempted_at, j.errors -> -1
        FROM job AS j
        WHERE j.state IN ('scheduled', 'retryable')
        ORDER BY j.scheduled_at
        LIMIT look_at
    )
    UNION ALL
    (
        SELECT j.id, j.kind, j.queue, j.state, j.attempt, j.crashes, j.created_at, j.finalized_at, j.errors -> -1
        FROM job AS j
        WHERE j.state = 'discarded'
        ORDER BY j.id DESC
        LIMIT look_at
    );
END;
COMMENT ON FUNCTION _waiting_and_discarded_jobs IS 'The look_at scheduled and retryable jobs that are due first, and the last look_at discarded jobs. at: when the last attempt began, or when the job was discarded. last_error: the last entry of job.errors.';

-- Without a backslash, which means something else where standard_conforming_strings is off.
CREATE FUNCTION failing_kinds(look_at integer DEFAULT 20000)
RETURNS TABLE (
    kind text, queues text[], retryable bigint, discarded bigint, attempts_used bigint,
    last_failed_at timestamptz, last_error text, last_job uuid, are_all boolean
)
    LANGUAGE sql STABLE
AS $$
WITH looked_at AS MATERIALIZED (
    SELECT f.id, f.kind, f.queue, f.state, f.attempt, f.at FROM _waiting_and_discarded_jobs(look_at) AS f
),
counted AS (
    SELECT
        f.kind,
        array_agg(DISTINCT f.queue) AS queues,
        count(*) FILTER (WHERE f.state = 'retryable') AS retryable,
        count(*) FILTER (WHERE f.state = 'discarded') AS discarded,
        sum(f.attempt)::bigint AS attempts_used,
        (array_agg(f.id ORDER BY f.at DESC NULLS LAST, f.id DESC))[1] AS last_job
    FROM looked_at AS f
    WHERE f.state <> 'scheduled'
    GROUP BY f.kind
)
SELECT
    c.kind, c.queues, c.retryable, c.discarded, c.attempts_used,
    -- Values written by hand must not make the view fail.
    CASE
        WHEN (e.last ->> 'at') COLLATE "C" ~ '^[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]'
            THEN (e.last ->> 'at')::timestamptz
    END,
    e.last ->> 'error',
    c.last_job,
    (
        SELECT
            count(*) FILTER (WHERE l.state = 'discarded') < look_at AND count(*) FILTER (WHERE l.state <> 'discarded') < look_at
        FROM looked_at AS l
    )
FROM counted AS c
LEFT JOIN LATERAL (SELECT j.errors -> -1 AS last FROM job AS j WHERE j.id = c.last_job) AS e ON true
ORDER BY c.retryable + c.discarded DESC, c.kind
$$;
COMMENT ON FUNCTION failing_kinds IS 'The rows of the view failing_kind, from look_at waiting jobs and look_at discarded ones.';

CREATE FUNCTION failing_codes(look_at integer DEFAULT 20000)
RETURNS TABLE (
    kind text, code text, retryable bigint, discarded bigint, last_failed_at timestamptz, last_error text, last_job uuid
)
    LANGUAGE sql STABLE
AS $$
SELECT
    f.kind, f.code,
    count(*) FILTER (WHERE f.state = 'retryable'),
    count(*) FILTER (WHERE f.state = 'discarded'),
    max(f.at),
    (array_agg(f.error ORDER BY f.at DESC NULLS LAST, f.id DESC))[1],
    (array_agg(f.id ORDER BY f.at DESC NULLS LAST, f.id DESC))[1]
FROM (
    SELECT w.id, w.kind, w.state, w.at, (w.last_error ->> 'code') COLLATE "C" AS code, w.last_error ->> 'error' AS error
    FROM _waiting_and_discarded_jobs(look_at) AS w
    WHERE w.state <> 'scheduled'
) AS f
GROUP BY f.kind, f.code
ORDER BY count(*) DESC, f.kind, f.code
$$;
COMMENT ON FUNCTION failing_codes IS 'The rows of the view failing_code, from look_at waiting jobs and look_at discarded ones.';

CREATE FUNCTION error_pattern(error text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN left(
        regexp_replace(
            left(split_part(ltrim(error, E' \t\r\n'), E'\n', 1), 1000) COLLATE "C",
            '[[:alnum:]_.:-]*[0-9]([.:]*[[:alnum:]_-]+)*', '#', 'g'
        ),
        200
    );
COMMENT ON FUNCTION error_pattern IS 'The first 200 characters of an error''s first line, with # for each word with a digit.';

CREATE FUNCTION failing_errors(kind text, most integer DEFAULT 100)
RETURNS TABLE (
    error_pattern text, retryable bigint, discarded bigint, last_failed_at timestamptz, last_error text, last_job uuid
)
    LANGUAGE sql STABLE
AS $$
SELECT
    f.error_pattern, count(*) FILTER (WHERE f.state = 'retryable'), count(*) FILTER (WHERE f.state = 'discarded'),
    max(f.at) FILTER (WHERE isfinite(f.at)),
    (array_agg(f.error ORDER BY f.at DESC NULLS LAST, f.id DESC))[1],
    (array_agg(f.id ORDER BY f.at DESC NULLS LAST, f.id DESC))[1]
FROM (
    SELECT
        w.id, w.state, w.at, w.last_error ->> 'error' AS error, error_pattern(w.last_error ->> 'error') COLLATE "C" AS error_pattern
    FROM _waiting_and_discarded_jobs(look_at => NULL) AS w
    WHERE w.state <> 'scheduled' AND w.kind = failing_errors.kind COLLATE "C" AND w.last_error ->> 'error' IS NOT NULL
) AS f
GROUP BY f.error_pattern
ORDER BY count(*) DESC, f.error_pattern
LIMIT most
$$;
COMMENT ON FUNCTION failing_errors IS 'The retryable and discarded jobs of a kind by the error_pattern of their last error, the pattern with the most jobs first. last_failed_at: when the last attempt of a retryable job began, or when a job was discarded. Reads all failed jobs of all kinds.';

CREATE VIEW unique_claim AS
SELECT
    j.unique_key, j.id AS holder, j.kind, j.queue, j.state::text AS state,
    state_names(j.unique_states) AS claims_in,
    j.unique_until AS claimed_until,
    _claim_end(j.unique_states, j.until_start, j.unique_until) AS frees,
    j.created_at, statement_timestamp() - j.created_at AS age,
    j.scheduled_at, j.attempted_at, j.finalized_at, j.attempt, j.worker
FROM job AS j
WHERE j.claims AND (j.unique_until IS NULL OR j.unique_until > statement_timestamp());
COMMENT ON VIEW unique_claim IS 'One row per unique key that a job claims now. An insert with the key is a duplicate of that job. A query by unique_key is a probe of an index. A list is quick in the order of unique_key.';
COMMENT ON COLUMN unique_claim.kind IS 'The kind of the holder.';
COMMENT ON COLUMN unique_claim.queue IS 'The queue of the holder.';
COMMENT ON COLUMN unique_claim.state IS 'The state of the holder.';
COMMENT ON COLUMN unique_claim.holder IS 'The job that claims the key: job.id.';
COMMENT ON COLUMN unique_claim.claims_in IS 'The states in which the holder claims the key.';
COMMENT ON COLUMN unique_claim.claimed_until IS 'When the claim expires. Null: the claim has no time limit and ends with the holder''s state.';
COMMENT ON COLUMN unique_claim.frees IS 'The event that ends the claim, as a sentence.';
COMMENT ON COLUMN unique_claim.age IS 'The time since the holder was inserted.';
COMMENT ON COLUMN unique_claim.finalized_at IS 'When the holder became final. Set where a final job still claims its key.';
COMMENT ON COLUMN unique_claim.unique_key IS 'The unique key that the holder claims.';

CREATE VIEW running_job AS
SELECT
    j.id, j.kind, j.queue, j.attempt, j.max_attempts, j.crashes, j.priority,
    j.attempted_at AS started_at, statement_timestamp() - j.attempted_at AS running_for,
    j.worker AS runner, r.name AS runner_name,
    coalesce(r.leased_until > statement_timestamp(), false)
        AND (j.reserved_until > statement_timestamp()) IS NOT FALSE AS runner_is_alive,
    least(r.leased_until, j.reserved_until) - statement_timestamp() AS lease_left,
    j.progress, j.unique_key, j.claims
FROM job AS j
LEFT JOIN runner AS r ON r.id = j.worker
WHERE j.state = 'running';
COMMENT ON VIEW running_job IS 'One row per running job, with its runner. The youngest jobs may not have begun.';
COMMENT ON COLUMN running_job.started_at IS 'When this attempt started.';
COMMENT ON COLUMN running_job.running_for IS 'The time since this attempt started.';
COMMENT ON COLUMN running_job.runner IS 'The runner that has the job: runner.id.';
COMMENT ON COLUMN running_job.runner_name IS 'The name of the runner. Null: the runner has no row any more.';
COMMENT ON COLUMN running_job.runner_is_alive IS 'Whether the runner''s lease has not run out, nor a remote worker''s reservation of the job. False: the job will be rescued.';
COMMENT ON COLUMN running_job.lease_left IS 'The time until the runner''s lease runs out, without another heartbeat, or a remote worker''s reservation of the job. A heartbeat comes four times a lease. Negative: the time since it ran out.';

CREATE VIEW queue_status AS
SELECT
    q.name AS queue, q.status, q.paused_at, q.max_running, q.runners,
    q.available, q.running, q.scheduled, q.retryable, q.discarded, q.pending, q.completed, q.cancelled,
    q.oldest_available_age, q.waiting_are_all, q.discarded_are_all, q.last_are_all, s.max_waiting,
    q.rate_count, q.rate_period, q.rate_burst, q.held_until
FROM queues() AS q
LEFT JOIN queue AS s ON s.name = q.name;
COMMENT ON VIEW queue_status IS 'One row per queue that has settings, a live runner or jobs, with its jobs by state. Counts have limits. The function queues() names them and takes others. Reads with the caller''s rights.';
COMMENT ON COLUMN queue_status.queue IS 'The queue''s name.';
COMMENT ON COLUMN queue_status.status IS 'paused; held: held_until is set; no runner: there are jobs, and no live runner works the queue; at its limit: max_running jobs run; working: jobs run; waiting: jobs are available and none runs; idle.';
COMMENT ON COLUMN queue_status.runners IS 'The number of live runners that work the queue.';
COMMENT ON COLUMN queue_status.available IS 'The number of available jobs. 10001 means more than 10,000.';
COMMENT ON COLUMN queue_status.running IS 'The number of running jobs. 10001 means more than 10,000.';
COMMENT ON COLUMN queue_status.scheduled IS 'The number of scheduled jobs among those read. See waiting_are_all.';
COMMENT ON COLUMN queue_status.retryable IS 'The number of retryable jobs among those read. See waiting_are_all.';
COMMENT ON COLUMN queue_status.discarded IS 'The number of discarded jobs among those read. See discarded_are_all.';
COMMENT ON COLUMN queue_status.pending IS 'The number of pending jobs among those read. See last_are_all.';
COMMENT ON COLUMN queue_status.completed IS 'The number of completed jobs among those read. See last_are_all.';
COMMENT ON COLUMN queue_status.cancelled IS 'The number of cancelled jobs among those read. See last_are_all.';
COMMENT ON COLUMN queue_status.oldest_available_age IS 'How long the oldest available job of the queue could have run. Null: no job is available.';
COMMENT ON COLUMN queue_status.waiting_are_all IS 'Whether all scheduled and retryable jobs of all queues were read. False: only the 20,000 that are due first.';
COMMENT ON COLUMN queue_status.discarded_are_all IS 'Whether all discarded jobs of all queues were read. False: only the last 20,000.';
COMMENT ON COLUMN queue_status.last_are_all IS 'Whether all jobs were read. False: only the last 20,000.';

CREATE VIEW failing_kind AS
SELECT f.* FROM failing_kinds() AS f;
COMMENT ON VIEW failing_kind IS 'One row per kind with retryable or discarded jobs, the kind with the most such jobs first. Reads the 20,000 waiting jobs that are due first, and the last 20,000 discarded jobs. The function failing_kinds() takes another number. Reads with the caller''s rights.';
COMMENT ON COLUMN failing_kind.queues IS 'The queues of the jobs of the kind.';
COMMENT ON COLUMN failing_kind.retryable IS 'The number of retryable jobs of the kind.';
COMMENT ON COLUMN failing_kind.discarded IS 'The number of discarded jobs of the kind.';
COMMENT ON COLUMN failing_kind.attempts_used IS 'The number of started attempts of these jobs, added up.';
COMMENT ON COLUMN failing_kind.last_failed_at IS 'When the last of these jobs failed.';
COMMENT ON COLUMN failing_kind.last_error IS 'The error of the last of these jobs that failed.';
COMMENT ON COLUMN failing_kind.last_job IS 'The id of the last of these jobs that failed.';
COMMENT ON COLUMN failing_kind.are_all IS 'Whether all waiting and discarded jobs were read.';

CREATE VIEW failing_code AS
SELECT f.* FROM failing_codes() AS f;
COMMENT ON VIEW failing_code IS 'One row per kind and code of the last error of its retryable and discarded jobs, the code with the most such jobs first. Reads the 20,000 waiting jobs that are due first, and the last 20,000 discarded jobs. The function failing_codes() takes another number. Reads with the caller''s rights.';
COMMENT ON COLUMN failing_code.retryable IS 'The number of retryable jobs of the kind whose last error has the code.';
COMMENT ON COLUMN failing_code.discarded IS 'The number of discarded jobs of the kind whose last error has the code.';
COMMENT ON COLUMN failing_code.code IS 'The code of the last error. Null: that error has none.';

CREATE VIEW expired_job AS
SELECT
    j.id, j.kind, j.queue, j.group_key, j.unique_key, j.priority, j.created_at, j.scheduled_at, j.expires_at,
    j.finalized_at AS discarded_at, greatest(j.expires_at - greatest(j.created_at, j.scheduled_at), interval '0') AS waited
FROM job AS j
CROSS JOIN LATERAL (SELECT j.errors -> -1 ->> 'code' AS code) AS e
-- The second condition excludes jobs without an expiry before their errors are read.
WHERE j.state = 'discarded' AND j.expires_at IS NOT NULL AND e.code = 'expired'
ORDER BY j.id DESC;
COMMENT ON VIEW expired_job IS 'One row per job that was discarded because it had not started by its expires_at, the newest first. It reads the discarded jobs. Operators retry such a job with retry_jobs, which clears expires_at.';
COMMENT ON COLUMN expired_job.discarded_at IS 'When the job was discarded.';
COMMENT ON COLUMN expired_job.waited IS 'How long the job was due and had not started.';
