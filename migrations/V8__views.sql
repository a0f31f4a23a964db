-- Views of jobs and queues, for people.

CREATE FUNCTION available_queues() RETURNS SETOF text
    LANGUAGE sql STABLE
    ROWS 100
    SET search_path FROM CURRENT
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
-- Loose index scans: one probe for each queue.
WITH RECURSIVE without_group AS (
    (SELECT j.queue FROM job AS j WHERE j.group_key IS NULL AND j.state = 'available' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT n.queue
    FROM without_group AS a
    CROSS JOIN LATERAL (
        SELECT j.queue
        FROM job AS j
        WHERE j.group_key IS NULL AND j.state = 'available' AND j.queue > a.queue
        ORDER BY j.queue
        LIMIT 1
    ) AS n
),
with_groups AS (
    (SELECT j.queue FROM job AS j WHERE j.group_key IS NOT NULL AND j.state = 'available' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT n.queue
    FROM with_groups AS a
    CROSS JOIN LATERAL (
        SELECT j.queue
        FROM job AS j
        WHERE j.group_key IS NOT NULL AND j.state = 'available' AND j.queue > a.queue
        ORDER BY j.queue
        LIMIT 1
    ) AS n
)
SELECT a.queue::text FROM without_group AS a
UNION
SELECT g.queue::text FROM with_groups AS g
$$;
COMMENT ON FUNCTION available_queues() IS 'The queues that have available jobs.';

-- A job that was inserted with a past scheduled_at counts as waiting since its insert.
CREATE FUNCTION queues(count_to integer DEFAULT 10000, look_at integer DEFAULT 20000)
RETURNS TABLE (
    name text, paused_at timestamptz, max_running integer, runners bigint,
    available bigint, running bigint, scheduled bigint, retryable bigint,
    discarded bigint, pending bigint, completed bigint, cancelled bigint,
    waiting_are_all boolean, discarded_are_all boolean, last_are_all boolean,
    oldest_available_age interval,
    rate_count integer, rate_period interval, rate_burst integer, held_until timestamptz
)
    LANGUAGE sql STABLE
    SET search_path FROM CURRENT
    -- Every part has a limit, and only an index scan in order stops there. Without JIT: compiling takes ten times as long
    -- as running.
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
-- Available and running jobs are counted queue by queue, by index. Of the others, the first waiting
-- ones, the last discarded ones and the last of all are looked at.
WITH RECURSIVE running AS (
    -- A loose index scan: one probe for each queue.
    (SELECT j.queue FROM job AS j WHERE j.state = 'running' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT n.queue
    FROM running AS r
    CROSS JOIN LATERAL (
        SELECT j.queue
        FROM job AS j
        WHERE j.state = 'running' AND j.queue > r.queue
        ORDER BY j.queue
        LIMIT 1
    ) AS n
),
waiting_jobs AS MATERIALIZED (
    SELECT j.queue, j.state FROM job AS j WHERE j.state IN ('scheduled', 'retryable') ORDER BY j.scheduled_at LIMIT look_at
),
discarded_jobs AS MATERIALIZED (
    SELECT j.queue FROM job AS j WHERE j.state = 'discarded' ORDER BY j.id DESC LIMIT look_at
),
last_jobs AS MATERIALIZED (
    SELECT j.queue, j.state FROM job AS j ORDER BY j.id DESC LIMIT look_at
),
waiting AS (
    SELECT
        w.queue,
        count(*) FILTER (WHERE w.state = 'scheduled') AS scheduled,
        count(*) FILTER (WHERE w.state = 'retryable') AS retryable
    FROM waiting_jobs AS w
    GROUP BY w.queue
),
discarded AS (
    SELECT d.queue, count(*) AS discarded FROM discarded_jobs AS d GROUP BY d.queue
),
last AS (
    SELECT
        l.queue,
        count(*) FILTER (WHERE l.state = 'pending') AS pending,
        count(*) FILTER (WHERE l.state = 'completed') AS completed,
        count(*) FILTER (WHERE l.state = 'cancelled') AS cancelled
    FROM last_jobs AS l
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
    UNION SELECT a.name FROM available_queues() AS a (name)
    UNION SELECT r.queue FROM running AS r
    UNION SELECT w.queue FROM waiting AS w
    UNION SELECT d.queue FROM discarded AS d
    UNION SELECT l.queue FROM last AS l
)
SELECT
    n.name, q.paused_at, q.max_running, coalesce(w.runners, 0) AS runners,
    a.available, r.running,
    coalesce(t.scheduled, 0) AS scheduled, coalesce(t.retryable, 0) AS retryable,
    coalesce(d.discarded, 0) AS discarded,
    coalesce(l.pending, 0) AS pending, coalesce(l.completed, 0) AS completed, coalesce(l.cancelled, 0) AS cancelled,
    (SELECT count(*) < look_at FROM waiting_jobs) AS waiting_are_all,
    (SELECT count(*) < look_at FROM discarded_jobs) AS discarded_are_all,
    (SELECT count(*) < look_at FROM last_jobs) AS last_are_all,
    -- greatest alone would ignore a null.
    CASE WHEN o.oldest IS NOT NULL THEN greatest(clock_timestamp() - o.oldest, interval '0') END,
    q.rate_count, q.rate_period, q.rate_burst,
    CASE WHEN q.held_until > clock_timestamp() THEN q.held_until END
FROM named AS n
LEFT JOIN queue AS q ON q.name = n.name
LEFT JOIN worked AS w ON w.queue = n.name
LEFT JOIN waiting AS t ON t.queue = n.name
LEFT JOIN discarded AS d ON d.queue = n.name
LEFT JOIN last AS l ON l.queue = n.name
CROSS JOIN LATERAL (
    SELECT count(*) AS available
    FROM (
        SELECT FROM available_jobs(n.name, count_to + 1) LIMIT count_to + 1
    ) AS c
) AS a
CROSS JOIN LATERAL (
    SELECT count(*) AS running
    FROM (SELECT FROM job AS j WHERE j.queue = n.name AND j.state = 'running' LIMIT count_to + 1) AS c
) AS r
CROSS JOIN LATERAL (
    -- The first ones of each priority: those that have waited longest are among them, but where many were inserted
    -- with a time that had passed.
    WITH RECURSIVE first AS (
        (
            SELECT j.priority
            FROM job AS j
            WHERE j.queue = n.name AND j.group_key IS NULL AND j.state = 'available'
            ORDER BY j.priority DESC, j.scheduled_at
            LIMIT 1
        )
        UNION ALL
        SELECT b.priority
        FROM first AS f
        CROSS JOIN LATERAL (
            SELECT j.priority
            FROM job AS j
            WHERE j.queue = n.name AND j.group_key IS NULL AND j.state = 'available' AND j.priority < f.priority
            ORDER BY j.priority DESC, j.scheduled_at
            LIMIT 1
        ) AS b
    )
    SELECT min(s.since) FILTER (WHERE isfinite(s.since)) AS oldest
    FROM (
        SELECT greatest(j.scheduled_at, j.created_at) AS since
        FROM (SELECT f.priority FROM first AS f LIMIT 1000) AS f
        CROSS JOIN LATERAL (
            SELECT j.scheduled_at, j.created_at
            FROM job AS j
            WHERE j.queue = n.name AND j.group_key IS NULL AND j.state = 'available' AND j.priority = f.priority
            ORDER BY j.priority DESC, j.scheduled_at
            LIMIT 10
        ) AS j
        UNION ALL
        -- Groups are in the order of their keys, so this is the oldest of the first thousand.
        SELECT greatest(g.scheduled_at, g.created_at)
        FROM (
            SELECT j.scheduled_at, j.created_at
            FROM job AS j
            WHERE j.queue = n.name AND j.group_key IS NOT NULL AND j.state = 'available'
            ORDER BY j.priority DESC, j.group_key, j.scheduled_at
            LIMIT 1000
        ) AS g
    ) AS s
) AS o
ORDER BY n.name
$$;
COMMENT ON FUNCTION queues(integer, integer) IS
    'Every queue that has settings, a live runner or jobs, with its jobs by state; cheap however many jobs there are. available and running stop at count_to + 1. The others are counted among the look_at first waiting jobs (scheduled, retryable), the look_at last discarded jobs, and the look_at last jobs of all (pending, completed, cancelled); *_are_all says whether that was all there are. A queue is missing where all it has are older jobs of the last sort. oldest_available_age: how long the oldest available job could have run already, of the first ten of each priority, and of a thousand jobs of groups.';

-- Without a backslash, which means something else where standard_conforming_strings is off.
CREATE FUNCTION failing_kinds(look_at integer DEFAULT 20000)
RETURNS TABLE (
    kind text, queues text[], retryable bigint, discarded bigint, attempts_used bigint,
    last_failed_at timestamptz, last_error text, last_job uuid, are_all boolean
)
    LANGUAGE sql STABLE
    SET search_path FROM CURRENT
    -- As in queues(): every part has a limit, and only an index scan in order stops there.
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
WITH waiting_jobs AS MATERIALIZED (
    SELECT j.id, j.kind, j.queue, j.state, j.attempt, j.attempted_at AS at
    FROM job AS j
    WHERE j.state IN ('scheduled', 'retryable')
    ORDER BY j.scheduled_at
    LIMIT look_at
),
discarded_jobs AS MATERIALIZED (
    SELECT j.id, j.kind, j.queue, j.state, j.attempt, j.finalized_at AS at
    FROM job AS j
    WHERE j.state = 'discarded'
    ORDER BY j.id DESC
    LIMIT look_at
),
failed AS (
    SELECT w.id, w.kind, w.queue, w.state, w.attempt, w.at FROM waiting_jobs AS w WHERE w.state = 'retryable'
    UNION ALL
    SELECT d.id, d.kind, d.queue, d.state, d.attempt, d.at FROM discarded_jobs AS d
),
counted AS (
    SELECT
        f.kind,
        array_agg(DISTINCT f.queue) AS queues,
        count(*) FILTER (WHERE f.state = 'retryable') AS retryable,
        count(*) FILTER (WHERE f.state = 'discarded') AS discarded,
        sum(f.attempt)::bigint AS attempts_used,
        (array_agg(f.id ORDER BY f.at DESC NULLS LAST, f.id DESC))[1] AS last_job
    FROM failed AS f
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
    (SELECT count(*) < look_at FROM waiting_jobs) AND (SELECT count(*) < look_at FROM discarded_jobs)
FROM counted AS c
LEFT JOIN LATERAL (SELECT j.errors -> -1 AS last FROM job AS j WHERE j.id = c.last_job) AS e ON true
ORDER BY c.retryable + c.discarded DESC, c.kind
$$;
COMMENT ON FUNCTION failing_kinds(integer) IS
    'The rows of the view failing_kind, from the look_at waiting jobs that are due first and the look_at last discarded ones.';

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
            greatest(q.held_until, next_token_at(q.rate_count, q.rate_period, q.rate_burst, q.rate_full_at))
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
    FROM available_queues() AS n (queue)
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
    CROSS JOIN LATERAL available_jobs(q.queue, least(100, look_at)) AS j
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
    'The rows of the view stuck_job: for each reason up to look_at jobs, of the available ones up to 100 a queue, those that would be fetched next. running_longer_than: from when on a running job is listed although its runner lives. waiting_longer_than: from when on a job that is due or available is.';

CREATE VIEW unique_claim AS
SELECT
    j.unique_key, j.id AS holder, j.kind, j.queue, j.state::text AS state,
    state_names(j.unique_states) AS claims_in,
    j.unique_until AS claimed_until,
    claim_end(j.unique_states, j.until_start, j.unique_until) AS frees,
    j.created_at, statement_timestamp() - j.created_at AS age,
    j.scheduled_at, j.attempted_at, j.finalized_at, j.attempt, j.worker
FROM job AS j
WHERE j.claims AND (j.unique_until IS NULL OR j.unique_until > statement_timestamp());
COMMENT ON VIEW unique_claim IS
    'One row a unique key that a job claims now: an insert with the key is a duplicate of that job. By its key a row is found at once; a list of many is quick in the order of unique_key.';
COMMENT ON COLUMN unique_claim.unique_key IS 'The key.';
COMMENT ON COLUMN unique_claim.holder IS 'The job that claims it: job.id.';
COMMENT ON COLUMN unique_claim.kind IS 'Of the holder.';
COMMENT ON COLUMN unique_claim.queue IS 'Of the holder.';
COMMENT ON COLUMN unique_claim.state IS 'Of the holder.';
COMMENT ON COLUMN unique_claim.claims_in IS 'The states in which the holder claims the key.';
COMMENT ON COLUMN unique_claim.claimed_until IS 'When the claim ends at the latest; null: only with the state.';
COMMENT ON COLUMN unique_claim.frees IS 'When the claim ends, as a sentence.';
COMMENT ON COLUMN unique_claim.created_at IS 'Of the holder.';
COMMENT ON COLUMN unique_claim.age IS 'How long ago the holder was inserted.';
COMMENT ON COLUMN unique_claim.scheduled_at IS 'Of the holder.';
COMMENT ON COLUMN unique_claim.attempted_at IS 'Of the holder.';
COMMENT ON COLUMN unique_claim.finalized_at IS 'Of the holder; set where it claims its key although it is final.';
COMMENT ON COLUMN unique_claim.attempt IS 'Of the holder.';
COMMENT ON COLUMN unique_claim.worker IS 'The runner that has, or last had, the holder.';

CREATE VIEW running_job AS
SELECT
    j.id, j.kind, j.queue, j.attempt, j.max_attempts, j.crashes, j.priority,
    j.attempted_at AS started_at, statement_timestamp() - j.attempted_at AS running_for,
    j.worker AS runner, r.name AS runner_name,
    coalesce(r.leased_until > statement_timestamp(), false) AS runner_is_alive,
    r.leased_until - statement_timestamp() AS lease_left,
    j.progress, j.unique_key, j.claims
FROM job AS j
LEFT JOIN runner AS r ON r.id = j.worker
WHERE j.state = 'running';
COMMENT ON VIEW running_job IS
    'One row a running job, with the runner that has it. A runner fetches ahead up to 50 ms of work, so the youngest may not have begun.';
COMMENT ON COLUMN running_job.id IS 'The job.';
COMMENT ON COLUMN running_job.kind IS 'Its type name.';
COMMENT ON COLUMN running_job.queue IS 'Its queue.';
COMMENT ON COLUMN running_job.attempt IS 'Which attempt this is.';
COMMENT ON COLUMN running_job.max_attempts IS 'Attempts before it is discarded.';
COMMENT ON COLUMN running_job.crashes IS 'How many times in a row its runner died while it had the job; above 0 it is a suspect.';
COMMENT ON COLUMN running_job.priority IS 'Higher runs first.';
COMMENT ON COLUMN running_job.started_at IS 'When this attempt started.';
COMMENT ON COLUMN running_job.running_for IS 'How long ago that was.';
COMMENT ON COLUMN running_job.runner IS 'The runner that has it: runner.id.';
COMMENT ON COLUMN running_job.runner_name IS 'The runner''s name; null: its row is gone.';
COMMENT ON COLUMN running_job.runner_is_alive IS 'Whether the runner''s lease holds. Where not, the job is about to be rescued.';
COMMENT ON COLUMN running_job.lease_left IS 'How long the lease holds without another heartbeat, which comes four times a lease; negative: it ran out so long ago.';
COMMENT ON COLUMN running_job.progress IS 'How far the job said it was, last.';
COMMENT ON COLUMN running_job.unique_key IS 'Its unique key, if it has one.';
COMMENT ON COLUMN running_job.claims IS 'Whether it claims that key now.';

CREATE FUNCTION groups(
    queue_name text DEFAULT NULL, look_at integer DEFAULT 1000, after_queue text DEFAULT NULL, after_group text DEFAULT NULL
)
RETURNS TABLE (
    queue text, group_key text, running bigint, group_limit integer, waiting bigint, head uuid, head_kind text,
    head_since timestamptz, held_by text, held_until timestamptz
)
    LANGUAGE sql STABLE
    SET search_path FROM CURRENT
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
-- One entry of job_group for each group and priority, and one of job_group_held for each group that holds a place. An entry
-- without an id is where a walk begins: before all priorities of a queue, or after after_group in one of them.
WITH RECURSIVE visit AS (
    SELECT
        coalesce(queue_name, after_queue, '') COLLATE "C" AS queue, 32768 AS priority,
        coalesce(after_group, '') COLLATE "C" AS group_key, NULL::uuid AS id, NULL::text COLLATE "C" AS kind, NULL::smallint AS group_limit, NULL::boolean AS in_order,
        NULL::timestamptz AS since,
        -- Groups in this priority, at least that many in this queue and in those before, entries in all.
        0 AS place, 0 AS most, 0 AS before, 0 AS visited
    UNION ALL
    SELECT
        n.queue, n.priority, n.group_key, n.id, n.kind, n.group_limit, n.in_order, n.since,
        n.place, greatest(n.most, n.place), n.before, v.visited + (n.id IS NOT NULL)::integer
    FROM visit AS v
    CROSS JOIN LATERAL (
        -- The next group of the priority, else the next priority of the queue, else the next queue.
        (
            SELECT
                j.queue::text AS queue, j.priority::integer AS priority, j.group_key::text AS group_key, j.id,
                j.kind::text AS kind, j.group_limit::smallint AS group_limit, j.in_order,
                greatest(j.scheduled_at, j.created_at) AS since, v.place + 1 AS place, v.most AS most, v.before AS before
            FROM job AS j
            WHERE j.group_key IS NOT NULL AND j.state = 'available'
                AND j.queue = v.queue AND j.priority = v.priority AND j.group_key > v.group_key
                AND (after_queue IS NULL OR v.before + v.place < look_at)
            ORDER BY j.group_key, j.scheduled_at, j.id
            LIMIT 1
        )
        UNION ALL
        (
            SELECT
                p.queue, p.priority,
                CASE WHEN a.is_after THEN after_group ELSE p.group_key END,
                CASE WHEN NOT a.is_after THEN p.id END,
                p.kind, p.group_limit, p.in_order, p.since, (NOT a.is_after)::integer, v.most, v.before
            FROM (SELECT coalesce(v.queue = after_queue AND after_group <> '', false) AS is_after) AS a
            CROSS JOIN LATERAL (
                SELECT
                    j.queue::text AS queue, j.priority::integer AS priority, j.group_key::text AS group_key, j.id,
                    j.kind::text AS kind, j.group_limit::smallint AS group_limit, j.in_order,
                    greatest(j.scheduled_at, j.created_at) AS since
                FROM job AS j
                WHERE j.group_key IS NOT NULL AND j.state = 'available'
                    AND j.queue = v.queue AND j.priority < v.priority
                ORDER BY j.priority DESC, j.group_key, j.scheduled_at, j.id
                LIMIT 1
            ) AS p
        )
        UNION ALL
        (
            SELECT
                j.queue::text, j.priority::integer, j.group_key::text, j.id, j.kind::text, j.group_limit::smallint,
                j.in_order, greatest(j.scheduled_at, j.created_at), 1, 0, v.before + v.most
            FROM job AS j
            WHERE j.group_key IS NOT NULL AND j.state = 'available' AND j.queue > v.queue
                AND queue_name IS NULL AND (after_queue IS NULL OR v.before + v.most < look_at)
            ORDER BY j.queue, j.priority DESC, j.group_key, j.scheduled_at, j.id
            LIMIT 1
        )
        LIMIT 1
    ) AS n
    WHERE after_queue IS NOT NULL OR v.visited < look_at
),
held AS (
    (
        SELECT j.queue, j.group_key, 1 AS place
        FROM job AS j
        WHERE j.group_key IS NOT NULL AND j.finalized_at IS NULL AND (j.state = 'running' OR j.began IS NOT NULL)
            AND (j.queue, j.group_key) > (coalesce(queue_name, after_queue, ''), coalesce(after_group, ''))
        ORDER BY j.queue, j.group_key
        LIMIT 1
    )
    UNION ALL
    SELECT n.queue, n.group_key, h.place + 1
    FROM held AS h
    CROSS JOIN LATERAL (
        SELECT j.queue, j.group_key
        FROM job AS j
        WHERE j.group_key IS NOT NULL AND j.finalized_at IS NULL AND (j.state = 'running' OR j.began IS NOT NULL)
            AND (j.queue, j.group_key) > (h.queue, h.group_key)
        ORDER BY j.queue, j.group_key
        LIMIT 1
    ) AS n
    WHERE h.place < look_at AND (queue_name IS NULL OR h.queue = queue_name)
),
waiting AS (
    SELECT DISTINCT ON (v.queue, v.group_key)
        v.queue, v.group_key, v.id, v.kind, v.since, v.group_limit, v.in_order,
        sum(w.waiting) OVER (PARTITION BY v.queue, v.group_key)::bigint AS waiting
    FROM visit AS v
    CROSS JOIN LATERAL (
        SELECT count(*) AS waiting
        FROM (
            SELECT
            FROM job AS j
            WHERE j.queue = v.queue AND j.group_key IS NOT NULL AND j.state = 'available'
                AND j.priority = v.priority AND j.group_key = v.group_key
            ORDER BY j.scheduled_at
            LIMIT 1001
        ) AS c
    ) AS w
    WHERE v.id IS NOT NULL
    ORDER BY v.queue, v.group_key, v.priority DESC
),
named AS (
    SELECT w.queue, w.group_key FROM waiting AS w
    UNION
    SELECT h.queue, h.group_key FROM held AS h WHERE queue_name IS NULL OR h.queue = queue_name
)
SELECT
    n.queue, n.group_key, p.running, l.group_limit, coalesce(w.waiting, 0), w.id, w.kind, w.since,
    CASE
        WHEN w.id IS NULL THEN NULL
        WHEN q.paused_at IS NOT NULL THEN 'its queue is paused'
        WHEN u.queue_held_until IS NOT NULL THEN 'its queue is held'
        WHEN u.held_until IS NOT NULL THEN 'it is held'
        WHEN b.id <> w.id THEN format('job %s, which began and is %s', b.id, b.state)
        WHEN b.id IS NULL AND p.running >= l.group_limit AND p.running = 1 THEN format('job %s, which runs', p.runs)
        WHEN p.running >= l.group_limit THEN 'its limit'
        WHEN u.token_at IS NOT NULL THEN 'its rate'
        WHEN u.queue_token_at IS NOT NULL THEN 'the rate of its queue'
    END,
    greatest(u.queue_held_until, u.held_until, u.token_at, u.queue_token_at)
FROM named AS n
LEFT JOIN waiting AS w ON w.queue = n.queue AND w.group_key = n.group_key
LEFT JOIN queue AS q ON q.name = n.queue
CROSS JOIN LATERAL (
    SELECT count(*) AS running, (array_agg(r.id))[1] AS runs
    FROM (
        SELECT j.id
        FROM job AS j
        WHERE j.queue = n.queue AND j.group_key = n.group_key AND j.group_key IS NOT NULL AND j.finalized_at IS NULL
            AND j.state = 'running'
        LIMIT 1001
    ) AS r
) AS p
LEFT JOIN LATERAL (
    SELECT j.id, j.state
    FROM job AS j
    WHERE j.queue = n.queue AND j.group_key = n.group_key AND j.group_key IS NOT NULL AND j.finalized_at IS NULL
        AND j.began IS NOT NULL AND j.state <> 'running'
    ORDER BY j.id
    LIMIT 1
) AS b ON true
CROSS JOIN LATERAL (
    SELECT least(CASE WHEN w.in_order THEN 1 END, w.group_limit, q.max_per_group) AS group_limit
) AS l
LEFT JOIN queue_group AS t ON t.queue = n.queue AND t.group_key = n.group_key
-- Times that have passed hold nothing up.
CROSS JOIN LATERAL (
    SELECT
        CASE WHEN q.held_until > statement_timestamp() THEN q.held_until END AS queue_held_until,
        CASE WHEN t.held_until > statement_timestamp() THEN t.held_until END AS held_until,
        CASE WHEN a.token_at > statement_timestamp() THEN a.token_at END AS token_at,
        CASE WHEN a.queue_token_at > statement_timestamp() THEN a.queue_token_at END AS queue_token_at
    FROM (
        SELECT
            next_token_at(q.rate_count, q.rate_period, q.rate_burst, q.rate_full_at) AS queue_token_at,
            next_token_at(q.group_rate_count, q.group_rate_period, q.group_rate_burst, t.rate_full_at) AS token_at
    ) AS a
) AS u
ORDER BY n.queue, n.group_key
$$;
COMMENT ON FUNCTION groups(text, integer, text, text) IS
    'The rows of the view group_status: groups with available or running jobs, of one queue or of all. look_at: how many are read of each sort, default 1,000. after_queue, after_group: of all the groups in the order of their queues and keys only those after this one, and of these the look_at first at least. Both empty: all groups from the first on. waiting and running stop at 1,001 (waiting: for each priority).';

CREATE VIEW group_status AS
SELECT
    g.queue, g.group_key, g.running, g.group_limit, g.waiting, g.head, g.head_kind, g.head_since, g.held_by, g.held_until
FROM groups() AS g;
COMMENT ON VIEW group_status IS
    'One row a group of a queue that has available or running jobs: the first 1,000 of each sort; groups() looks further when told. Reads with the caller''s rights.';
COMMENT ON COLUMN group_status.queue IS 'The queue.';
COMMENT ON COLUMN group_status.group_key IS 'The group''s key.';
COMMENT ON COLUMN group_status.running IS 'How many of its jobs run; 1001: more than 1,000.';
COMMENT ON COLUMN group_status.group_limit IS 'How many may run at once, as its first job and the queue say; null: no limit.';
COMMENT ON COLUMN group_status.waiting IS 'How many of its jobs are available, counted to 1,001 at each priority.';
COMMENT ON COLUMN group_status.head IS 'Its first available job; null: none waits.';
COMMENT ON COLUMN group_status.head_kind IS 'That job''s kind.';
COMMENT ON COLUMN group_status.head_since IS 'Since when that job could have run.';
COMMENT ON COLUMN group_status.held_by IS
    'What holds the line up: its queue is paused or held, it is held, its limit or rate, the rate of its queue, or a job that runs or began. Null: nothing does, or none waits.';
COMMENT ON COLUMN group_status.held_until IS 'Until when a hold or a rate lets none of its jobs start; null: neither does.';

CREATE VIEW queue_status AS
SELECT
    q.name AS queue,
    CASE
        WHEN q.paused_at IS NOT NULL THEN 'paused'
        WHEN q.held_until IS NOT NULL THEN 'held'
        WHEN q.runners = 0 AND q.available + q.running + q.scheduled + q.retryable > 0 THEN 'no runner'
        WHEN q.running >= q.max_running THEN 'at its limit'
        WHEN q.running > 0 THEN 'working'
        WHEN q.available > 0 THEN 'waiting'
        ELSE 'idle'
    END AS status,
    q.paused_at, q.max_running, q.runners,
    q.available, q.running, q.scheduled, q.retryable, q.discarded, q.pending, q.completed, q.cancelled,
    q.oldest_available_age, q.waiting_are_all, q.discarded_are_all, q.last_are_all, s.max_waiting,
    q.rate_count, q.rate_period, q.rate_burst, q.held_until
FROM queues() AS q
LEFT JOIN queue AS s ON s.name = q.name;
COMMENT ON VIEW queue_status IS
    'One row a queue that has settings, a live runner or jobs, with its jobs by state, counted no further than needed: queues() says how far, and counts further when told. Reads with the caller''s rights.';
COMMENT ON COLUMN queue_status.queue IS 'The queue''s name.';
COMMENT ON COLUMN queue_status.status IS
    'paused; held (held_until is set); no runner (there are jobs, and no live runner works the queue); at its limit (max_running jobs run); working; waiting (jobs are available and none runs); idle.';
COMMENT ON COLUMN queue_status.paused_at IS 'Since when nothing is fetched from it; null: it is not paused.';
COMMENT ON COLUMN queue_status.max_running IS 'How many of its jobs may run at once, over all runners; null: no limit.';
COMMENT ON COLUMN queue_status.runners IS 'How many live runners work it.';
COMMENT ON COLUMN queue_status.available IS 'Jobs that wait for a free worker; 10001: more than 10,000.';
COMMENT ON COLUMN queue_status.running IS 'Jobs that a worker runs; 10001: more than 10,000.';
COMMENT ON COLUMN queue_status.scheduled IS 'Jobs that wait for their time, among those looked at (waiting_are_all).';
COMMENT ON COLUMN queue_status.retryable IS 'Jobs that failed and wait for their next attempt, among those looked at (waiting_are_all).';
COMMENT ON COLUMN queue_status.discarded IS 'Jobs that were given up, among those looked at (discarded_are_all).';
COMMENT ON COLUMN queue_status.pending IS 'Jobs that are held back, among those looked at (last_are_all).';
COMMENT ON COLUMN queue_status.completed IS 'Jobs that were worked, among those looked at (last_are_all).';
COMMENT ON COLUMN queue_status.cancelled IS 'Jobs that were stopped, among those looked at (last_are_all).';
COMMENT ON COLUMN queue_status.oldest_available_age IS 'How long its oldest available job could have run already; null: none is available.';
COMMENT ON COLUMN queue_status.waiting_are_all IS 'Whether all waiting jobs of all queues were looked at, not only the 20,000 that are due first.';
COMMENT ON COLUMN queue_status.discarded_are_all IS 'Whether all discarded jobs of all queues were looked at, not only the last 20,000.';
COMMENT ON COLUMN queue_status.last_are_all IS 'Whether all jobs were looked at, not only the last 20,000.';
COMMENT ON COLUMN queue_status.max_waiting IS 'How many available jobs an insert may leave it with; null: any number.';
COMMENT ON COLUMN queue_status.rate_count IS 'How many of its jobs may start in each rate_period, over all runners; null: no rate.';
COMMENT ON COLUMN queue_status.rate_period IS 'The time of rate_count starts.';
COMMENT ON COLUMN queue_status.rate_burst IS 'How many jobs may start at once, after a time without starts.';
COMMENT ON COLUMN queue_status.held_until IS 'Until when nothing is fetched from it; null: it is not held.';

CREATE VIEW failing_kind AS
SELECT
    f.kind, f.queues, f.retryable, f.discarded, f.attempts_used, f.last_failed_at, f.last_error, f.last_job, f.are_all
FROM failing_kinds() AS f;
COMMENT ON VIEW failing_kind IS
    'One row a kind of which jobs have failed and wait to be tried again, or were given up; the worst first. Looks at the 20,000 waiting jobs that are due first and at the last 20,000 discarded ones; failing_kinds() looks further when told. Reads with the caller''s rights.';
COMMENT ON COLUMN failing_kind.kind IS 'The kind.';
COMMENT ON COLUMN failing_kind.queues IS 'The queues of these jobs.';
COMMENT ON COLUMN failing_kind.retryable IS 'Jobs that failed and wait for their next attempt.';
COMMENT ON COLUMN failing_kind.discarded IS 'Jobs that were given up.';
COMMENT ON COLUMN failing_kind.attempts_used IS 'How often these jobs were started, all together.';
COMMENT ON COLUMN failing_kind.last_failed_at IS 'When the last of them failed.';
COMMENT ON COLUMN failing_kind.last_error IS 'What the last of them failed with.';
COMMENT ON COLUMN failing_kind.last_job IS 'That job.';
COMMENT ON COLUMN failing_kind.are_all IS 'Whether there are no more waiting and discarded jobs than those looked at.';

CREATE VIEW stuck_job AS
SELECT s.id, s.kind, s.queue, s.state, s.attempt, s.runner, s.since, s.stuck_for, s.reason, s.remedy
FROM stuck_jobs() AS s;
COMMENT ON VIEW stuck_job IS
    'One row a job that should have moved and has not, with the reason and the remedy; the longest stuck first, at most 1,000 a reason. stuck_jobs() takes other limits. Pending jobs are not among them: they wait for their release. Reads with the caller''s rights.';
COMMENT ON COLUMN stuck_job.id IS 'The job.';
COMMENT ON COLUMN stuck_job.kind IS 'Its type name.';
COMMENT ON COLUMN stuck_job.queue IS 'Its queue.';
COMMENT ON COLUMN stuck_job.state IS 'Its state.';
COMMENT ON COLUMN stuck_job.attempt IS 'How often it was started.';
COMMENT ON COLUMN stuck_job.runner IS 'The runner that has it, where it runs.';
COMMENT ON COLUMN stuck_job.since IS 'Since when it is stuck: for a running job, since its runner''s lease ran out or it started; for another, since it could have run or its queue was paused.';
COMMENT ON COLUMN stuck_job.stuck_for IS 'How long that is.';
COMMENT ON COLUMN stuck_job.reason IS
    'its runner died; runs long (over an hour); is due and not promoted (for over a minute); its queue is paused; no runner works its queue; no runner takes it (runners of its queue have room or start later jobs, so they do not know its kind).';
COMMENT ON COLUMN stuck_job.remedy IS 'What to do, often a statement.';
