-- Runners, queues and who does maintenance: what is set, and how a runner is woken.

CREATE TABLE runner (
    id uuid NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    heartbeat_at timestamptz,
    leased_until timestamptz NOT NULL,
    counted_at timestamptz,
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    lately_completed bigint NOT NULL DEFAULT 0,
    lately_failed bigint NOT NULL DEFAULT 0,
    lately interval,
    keep_completed interval,
    keep_cancelled interval,
    keep_discarded interval,
    idle boolean NOT NULL DEFAULT false,
    name text NOT NULL,
    queues text[] NOT NULL,
    slots integer[],
    kinds text[],
    CONSTRAINT runner_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50);
COMMENT ON TABLE runner IS 'One row a live runner. A runner whose lease ran out is dead: its jobs are rescued.';
COMMENT ON COLUMN runner.id IS 'The runner, as in job.worker.';
COMMENT ON COLUMN runner.started_at IS 'When it started.';
COMMENT ON COLUMN runner.heartbeat_at IS
    'When its lease was last taken or extended. It does that four times a lease, so leased_until - heartbeat_at is the lease''s length.';
COMMENT ON COLUMN runner.leased_until IS 'Until when it counts as alive, by the database''s clock. Its heartbeat extends this.';
COMMENT ON COLUMN runner.counted_at IS 'Its last heartbeat that reported the counts below; null: none yet.';
COMMENT ON COLUMN runner.completed IS 'How many jobs it completed since started_at, as of counted_at.';
COMMENT ON COLUMN runner.failed IS 'How many attempts failed or were discarded by it since started_at, as of counted_at.';
COMMENT ON COLUMN runner.lately_completed IS 'How many jobs it completed in the time that lately says.';
COMMENT ON COLUMN runner.lately_failed IS 'How many attempts failed in the time that lately says.';
COMMENT ON COLUMN runner.lately IS 'How long before counted_at the heartbeat before was, or its start: the time that lately_completed and lately_failed count.';
COMMENT ON COLUMN runner.keep_completed IS
    'How long it keeps completed jobs of queues that do not say so themselves; a thousand years: for ever. Null: it did not say.';
COMMENT ON COLUMN runner.keep_cancelled IS 'How long it keeps cancelled jobs.';
COMMENT ON COLUMN runner.keep_discarded IS 'How long it keeps discarded jobs.';
COMMENT ON COLUMN runner.idle IS 'Whether it listens for wake-ups. An insert notifies only when an idle runner wants its queue, since NOTIFY serialises commits.';
COMMENT ON COLUMN runner.name IS 'For people: uniqueue and the process id, unless the application says otherwise.';
COMMENT ON COLUMN runner.queues IS 'The queues it works.';
COMMENT ON COLUMN runner.slots IS 'For each of these queues, how many of its jobs it could run at once when it started. Null: it did not say.';
COMMENT ON COLUMN runner.kinds IS 'The kinds that it has a worker for. It leaves jobs of other kinds alone. Null: it did not say.';
COMMENT ON CONSTRAINT runner_pkey ON runner IS 'One row a runner.';

CREATE TABLE queue (
    name short_name NOT NULL,
    paused_at timestamptz,
    max_running integer,
    keep_completed interval,
    keep_cancelled interval,
    keep_discarded interval,
    CONSTRAINT queue_pkey PRIMARY KEY (name),
    CONSTRAINT queue_max_running_range CHECK (max_running >= 1),
    CONSTRAINT queue_keep_not_negative CHECK (
        keep_completed >= interval '0' AND keep_cancelled >= interval '0' AND keep_discarded >= interval '0'
    )
);
COMMENT ON TABLE queue IS 'Settings of a queue. A queue needs no row to be used.';
COMMENT ON COLUMN queue.name IS 'The queue''s name, as in job.queue.';
COMMENT ON COLUMN queue.paused_at IS 'Since when nothing is fetched from the queue; null: it is not paused.';
COMMENT ON COLUMN queue.max_running IS
    'How many of the queue''s jobs may run at once, over all runners; null: as many as the runners have slots for.';
COMMENT ON COLUMN queue.keep_completed IS 'How long the queue''s completed jobs are kept; 0: they are deleted when they complete; null: as the runners say (a day).';
COMMENT ON COLUMN queue.keep_cancelled IS 'How long its cancelled jobs are kept; null: as the runners say (a day).';
COMMENT ON COLUMN queue.keep_discarded IS 'How long its discarded jobs are kept; null: as the runners say (a week).';
COMMENT ON CONSTRAINT queue_pkey ON queue IS 'One row a queue.';
COMMENT ON CONSTRAINT queue_max_running_range ON queue IS 'A limit of at least 1. To run nothing, pause the queue.';
COMMENT ON CONSTRAINT queue_keep_not_negative ON queue IS 'A retention is not negative. For ever is a long time, such as 1000 years.';

CREATE TABLE maintenance (
    service text NOT NULL,
    holder uuid,
    runner text,
    leased_until timestamptz NOT NULL,
    ran_at timestamptz,
    CONSTRAINT maintenance_pkey PRIMARY KEY (service)
) WITH (fillfactor = 50);
COMMENT ON TABLE maintenance IS
    'One row a maintenance service (promoter, rescuer, pruner, periodic, reindexer), entered by the first runner that offers it. The lease makes one runner do it, to spare the others the work; two at once would do no harm.';
COMMENT ON COLUMN maintenance.service IS 'The service''s name.';
COMMENT ON COLUMN maintenance.holder IS 'The runner''s process that has the lease; null: none. An id made at its start, which stays when the runner goes on under a new runner.id.';
COMMENT ON COLUMN maintenance.runner IS 'The holder''s name, as in runner.name.';
COMMENT ON COLUMN maintenance.leased_until IS 'Until when nobody else does it, by the database''s clock. Without a holder and far in the future: the service is switched off for all runners.';
COMMENT ON COLUMN maintenance.ran_at IS 'When a service that runs seldom (the reindexer) last began.';
COMMENT ON CONSTRAINT maintenance_pkey ON maintenance IS 'One row a service.';

CREATE FUNCTION may_notify() RETURNS boolean
    LANGUAGE sql VOLATILE
    RETURN pg_notification_queue_usage() < 0.9;
COMMENT ON FUNCTION may_notify() IS
    'Whether the server''s queue of notifications has room. When it is full, every transaction that notifies fails as it commits, so nobody is notified before that: runners look by themselves.';

CREATE FUNCTION wake_runners(queues text[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
-- NOTIFY takes a database-wide lock at commit, so nothing is sent unless a runner sleeps. The runners
-- come first, not the queues: a plan whose cost followed the length of the array would be made anew
-- for each call, which takes longer than all the rest.
DECLARE
    woken integer;
BEGIN
    IF wake_runners.queues IS NULL THEN
        RETURN 0;
    END IF;
    SELECT count(pg_notify(current_schema() || '.job', q.name))
    INTO woken
    FROM (
        SELECT DISTINCT w.name
        FROM runner AS r
        CROSS JOIN LATERAL unnest(r.queues) AS w (name)
        WHERE r.idle AND r.leased_until > clock_timestamp() AND w.name = ANY (wake_runners.queues)
    ) AS q
    -- Asked of each that would be sent, so that an insert that wakes nobody does not ask.
    WHERE may_notify();
    RETURN woken;
END
$$;
COMMENT ON FUNCTION wake_runners(text[]) IS
    'Notifies channel <schema>.job, with the queue as payload, for each queue that an idle runner wants. Returns how many notifications it sent.';

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
    WHERE r.id = ANY (workers) AND r.leased_until > clock_timestamp() AND may_notify();
    RETURN told;
END
$$;
COMMENT ON FUNCTION tell_runners(uuid[]) IS
    'Notifies channel <schema>.control, with the runner''s id as payload, for each of these runners that is alive, where the server''s queue of notifications has room: it then asks which of its running jobs were taken away. Returns how many notifications it sent.';

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
