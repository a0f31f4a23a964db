-- Telling runners that their jobs were taken away; limits over all runners. Runs with search_path
-- set to the schema.

CREATE FUNCTION tell_runners(workers uuid[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
-- One notification a runner, not a job: a payload has at most 8,000 bytes, and the runner asks which
-- of its jobs are gone anyway. Nothing is sent for runners that are dead.
DECLARE
    told integer;
BEGIN
    SELECT count(pg_notify(current_schema() || '.control', r.id::text))
    INTO told
    FROM runner AS r
    WHERE r.id = ANY (workers) AND r.leased_until > clock_timestamp();
    RETURN told;
END
$$;
COMMENT ON FUNCTION tell_runners(uuid[]) IS
    'Notifies channel <schema>.control, with the runner''s id as payload, for each of these runners that is alive: it then asks which of its running jobs were taken away. Returns how many notifications it sent.';

ALTER TABLE queue
    ADD COLUMN max_running integer,
    ADD CONSTRAINT queue_max_running_range CHECK (max_running >= 1);
COMMENT ON COLUMN queue.max_running IS
    'How many of the queue''s jobs may run at once, over all runners; null: as many as the runners have slots for.';
COMMENT ON CONSTRAINT queue_max_running_range ON queue IS 'A limit of none is a pause.';

-- By queue first, so that the running jobs of a limited queue can be counted. Who looks for the jobs
-- of one runner reads all that run, which are few.
DROP INDEX job_running;
CREATE INDEX job_running ON job (queue, worker) WHERE state = 'running';
COMMENT ON INDEX job_running IS 'Running jobs by queue and runner, for limits, rescue and looking.';

CREATE INDEX job_discarded ON job (id) WHERE state = 'discarded';
COMMENT ON INDEX job_discarded IS
    'Discarded jobs, newest last: few among many, and what operators look for. Costs only who is discarded.';

CREATE FUNCTION free_places(queue_name text, wanted integer) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET lock_timeout = '200ms'
    -- One plan, made once, that reads by index however small the table was when it was made.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
AS $$
-- How many of the wanted jobs of a queue a fetch may start. The fetch's own snapshot is from before
-- it waited for the queue's row, and does not see what was started meanwhile; a statement that
-- begins with the row in hand does. The row stays locked until the fetch has committed, so that
-- nobody counts in between. Fetches take the rows of their queues in one order.
DECLARE
    settings queue;
    running integer;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = format('queue %s has a limit, which needs READ COMMITTED', queue_name),
            HINT = 'Set default_transaction_isolation of the role that runs jobs to read committed.';
    END IF;
    BEGIN
        SELECT q.* INTO settings FROM queue AS q WHERE q.name = queue_name FOR NO KEY UPDATE;
    EXCEPTION
        -- Somebody changes the queue in a transaction that is open for long. Other queues must not
        -- wait for that; this one is asked for again.
        WHEN lock_not_available THEN
            RETURN 0;
    END;
    IF settings.paused_at IS NOT NULL THEN
        RETURN 0;
    ELSIF settings.max_running IS NULL THEN
        RETURN wanted;
    END IF;
    SELECT count(*)
    INTO running
    FROM (
        SELECT FROM job AS j
        WHERE j.queue = queue_name AND j.state = 'running'
        LIMIT settings.max_running
    ) AS r;
    RETURN least(wanted, settings.max_running - running);
END
$$;
COMMENT ON FUNCTION free_places(text, integer) IS
    'How many of the wanted jobs of a queue a fetch may start under queue.max_running. Locks the queue''s row until the transaction ends; 0 where somebody else has it for longer than 200 ms. Error 0A000 under another isolation level than READ COMMITTED.';

CREATE FUNCTION queues(count_to integer DEFAULT 10000, look_at integer DEFAULT 20000)
RETURNS TABLE (
    name text, paused_at timestamptz, max_running integer, runners bigint,
    available bigint, running bigint, scheduled bigint, retryable bigint,
    discarded bigint, pending bigint, completed bigint, cancelled bigint,
    waiting_are_all boolean, discarded_are_all boolean, last_are_all boolean,
    oldest_available_age interval
)
    LANGUAGE sql STABLE
    SET search_path FROM CURRENT
    -- Every part stops at a limit, which only a walk along an index in its order can do. To compile
    -- the whole would take ten times as long as to run it.
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
-- Available and running jobs are counted queue by queue, by index. Of the others, the first waiting
-- ones, the last discarded ones and the last of all are looked at.
WITH RECURSIVE available AS (
    -- From one queue to the next, without what lies between.
    (SELECT j.queue FROM job AS j WHERE j.ready ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT n.queue
    FROM available AS a
    CROSS JOIN LATERAL (
        SELECT j.queue FROM job AS j WHERE j.ready AND j.queue > a.queue ORDER BY j.queue LIMIT 1
    ) AS n
),
running AS (
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
    SELECT j.queue, j.state FROM job AS j WHERE j.waiting ORDER BY j.scheduled_at LIMIT look_at
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
    UNION SELECT a.queue FROM available AS a
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
    -- greatest alone would make nothing of null.
    CASE WHEN o.oldest IS NOT NULL THEN greatest(clock_timestamp() - o.oldest, interval '0') END
FROM named AS n
LEFT JOIN queue AS q ON q.name = n.name
LEFT JOIN worked AS w ON w.queue = n.name
LEFT JOIN waiting AS t ON t.queue = n.name
LEFT JOIN discarded AS d ON d.queue = n.name
LEFT JOIN last AS l ON l.queue = n.name
CROSS JOIN LATERAL (
    SELECT count(*) AS available
    FROM (
        -- In the index's order, so that it is walked to the limit and not read whole.
        SELECT
        FROM job AS j
        WHERE j.queue = n.name AND j.ready
        ORDER BY j.priority DESC, j.scheduled_at
        LIMIT count_to + 1
    ) AS c
) AS a
CROSS JOIN LATERAL (
    SELECT count(*) AS running
    FROM (SELECT FROM job AS j WHERE j.queue = n.name AND j.state = 'running' LIMIT count_to + 1) AS c
) AS r
CROSS JOIN LATERAL (
    -- The first of each priority: the oldest of all is among them.
    WITH RECURSIVE first AS (
        (
            SELECT j.priority, j.scheduled_at
            FROM job AS j
            WHERE j.queue = n.name AND j.ready
            ORDER BY j.priority DESC, j.scheduled_at
            LIMIT 1
        )
        UNION ALL
        SELECT b.priority, b.scheduled_at
        FROM first AS f
        CROSS JOIN LATERAL (
            SELECT j.priority, j.scheduled_at
            FROM job AS j
            WHERE j.queue = n.name AND j.ready AND j.priority < f.priority
            ORDER BY j.priority DESC, j.scheduled_at
            LIMIT 1
        ) AS b
    )
    SELECT min(s.scheduled_at) AS oldest
    FROM (SELECT f.scheduled_at FROM first AS f LIMIT 1000) AS s
) AS o
ORDER BY n.name
$$;
COMMENT ON FUNCTION queues(integer, integer) IS
    'Every queue that has settings, a live runner or jobs, with its jobs by state; cheap however many jobs there are. available and running stop at count_to + 1. The others are counted among the look_at first waiting jobs (scheduled, retryable), the look_at last discarded jobs, and the look_at last jobs of all (pending, completed, cancelled); *_are_all says whether that was all there are. A queue is missing where all it has are older jobs of the last sort. oldest_available_age: how long the oldest available job could have run already.';
