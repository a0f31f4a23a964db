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
    name text COLLATE "C" NOT NULL,
    queues text[] COLLATE "C" NOT NULL,
    slots integer[],
    kinds text[] COLLATE "C",
    periodic jsonb NOT NULL DEFAULT '{}',
    knows_groups boolean NOT NULL,
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
COMMENT ON COLUMN runner.periodic IS 'The periodic jobs that its code defines, each with a digest of the definition: two live runners with different ones overwrite each other''s.';
COMMENT ON COLUMN runner.knows_groups IS 'Whether it keeps the limits of groups. Without a default: a runner of a version that does not know groups cannot enter.';
COMMENT ON CONSTRAINT runner_pkey ON runner IS 'One row a runner.';

CREATE TABLE queue (
    name short_name NOT NULL,
    paused_at timestamptz,
    max_running integer,
    max_per_group integer,
    max_waiting integer,
    fair boolean NOT NULL DEFAULT false,
    keep_completed interval,
    keep_cancelled interval,
    keep_discarded interval,
    rate_count integer,
    rate_period interval,
    rate_burst integer,
    rate_full_at timestamptz,
    group_rate_count integer,
    group_rate_period interval,
    group_rate_burst integer,
    held_at timestamptz,
    held_until timestamptz,
    CONSTRAINT queue_pkey PRIMARY KEY (name),
    CONSTRAINT queue_max_running_range CHECK (max_running >= 1),
    CONSTRAINT queue_max_per_group_range CHECK (max_per_group >= 1),
    CONSTRAINT queue_max_waiting_range CHECK (max_waiting >= 1),
    CONSTRAINT queue_keep_not_negative CHECK (
        keep_completed >= interval '0' AND keep_cancelled >= interval '0' AND keep_discarded >= interval '0'
    ),
    CONSTRAINT queue_rate_range CHECK (
        num_nonnulls(rate_count, rate_period, rate_burst) IN (0, 3)
        AND rate_count BETWEEN 1 AND 1000000 AND rate_burst BETWEEN 1 AND 1000000
        AND rate_period BETWEEN interval '1 ms' AND interval '31 days'
    ),
    CONSTRAINT queue_group_rate_range CHECK (
        num_nonnulls(group_rate_count, group_rate_period, group_rate_burst) IN (0, 3)
        AND group_rate_count BETWEEN 1 AND 1000000 AND group_rate_burst BETWEEN 1 AND 1000000
        AND group_rate_period BETWEEN interval '1 ms' AND interval '31 days'
    ),
    CONSTRAINT queue_times_finite CHECK (isfinite(rate_full_at) AND isfinite(held_at) AND isfinite(held_until))
) WITH (fillfactor = 50);
COMMENT ON TABLE queue IS 'Settings of a queue. A queue needs no row to be used.';
COMMENT ON COLUMN queue.name IS 'The queue''s name, as in job.queue.';
COMMENT ON COLUMN queue.paused_at IS 'Since when nothing is fetched from the queue; null: it is not paused.';
COMMENT ON COLUMN queue.max_running IS
    'How many of the queue''s jobs may run at once, over all runners; null: as many as the runners have slots for.';
COMMENT ON COLUMN queue.max_per_group IS
    'How many jobs of each group of the queue may run at once, over all runners; null: as many as the jobs themselves allow.';
COMMENT ON COLUMN queue.max_waiting IS
    'How many available jobs the queue may have after an insert that adds to them; null: any number.';
COMMENT ON COLUMN queue.fair IS
    'Whether the queue''s groups, and the jobs without a group as one more, take turns within a priority.';
COMMENT ON COLUMN queue.keep_completed IS 'How long the queue''s completed jobs are kept; 0: they are deleted when they complete; null: as the runners say (a day).';
COMMENT ON COLUMN queue.keep_cancelled IS 'How long its cancelled jobs are kept; null: as the runners say (a day).';
COMMENT ON COLUMN queue.keep_discarded IS 'How long its discarded jobs are kept; null: as the runners say (a week).';
COMMENT ON COLUMN queue.rate_count IS
    'How many of the queue''s jobs may start in each rate_period, over all runners, after the first rate_burst; null: no rate.';
COMMENT ON COLUMN queue.rate_period IS 'The time of rate_count starts. A month counts as 30 days.';
COMMENT ON COLUMN queue.rate_burst IS 'How many jobs may start at once, after a time without starts.';
COMMENT ON COLUMN queue.rate_full_at IS
    'When rate_burst jobs may start at once again. Each start moves it ahead by rate_period / rate_count, from now at the earliest. Null or past: they may now.';
COMMENT ON COLUMN queue.group_rate_count IS 'As rate_count, for each group of the queue.';
COMMENT ON COLUMN queue.group_rate_period IS 'The time of group_rate_count starts.';
COMMENT ON COLUMN queue.group_rate_burst IS 'How many jobs of a group may start at once, after a time without starts.';
COMMENT ON COLUMN queue.held_at IS 'When hold_queue set held_until: held_until - held_at is the length of the hold.';
COMMENT ON COLUMN queue.held_until IS 'Until when nothing is fetched from the queue, since a worker or an operator said so; null or past: it is not held.';
COMMENT ON CONSTRAINT queue_pkey ON queue IS 'One row a queue.';
COMMENT ON CONSTRAINT queue_max_running_range ON queue IS 'A limit of at least 1. To run nothing, pause the queue.';
COMMENT ON CONSTRAINT queue_max_per_group_range ON queue IS 'A limit of at least 1. To run nothing, pause the queue.';
COMMENT ON CONSTRAINT queue_max_waiting_range ON queue IS 'A limit of at least 1.';
COMMENT ON CONSTRAINT queue_keep_not_negative ON queue IS 'A retention is not negative. For ever is a long time, such as 1000 years.';
COMMENT ON CONSTRAINT queue_rate_range ON queue IS
    'A rate has a count and a burst of 1 to 1,000,000 and a period of 1 ms to 31 days. To run nothing, pause the queue.';
COMMENT ON CONSTRAINT queue_group_rate_range ON queue IS 'The same of the rate of each group.';
COMMENT ON CONSTRAINT queue_times_finite ON queue IS 'A fetch answers when the next job may start. To hold a queue without an end, pause it.';

CREATE TABLE queue_group (
    queue short_name NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    rate_full_at timestamptz,
    held_at timestamptz,
    held_until timestamptz,
    CONSTRAINT queue_group_pkey PRIMARY KEY (queue, group_key),
    CONSTRAINT queue_group_times_finite CHECK (isfinite(rate_full_at) AND isfinite(held_at) AND isfinite(held_until))
) WITH (fillfactor = 50);
COMMENT ON TABLE queue_group IS
    'One row a group that is held, or that started a job under the rate of its queue''s groups lately. The pruner deletes rows whose times have passed.';
COMMENT ON COLUMN queue_group.queue IS 'The queue.';
COMMENT ON COLUMN queue_group.group_key IS 'The group''s key, as in job.group_key.';
COMMENT ON COLUMN queue_group.rate_full_at IS 'As queue.rate_full_at, of the group under queue.group_rate_count.';
COMMENT ON COLUMN queue_group.held_at IS 'When hold_group set held_until.';
COMMENT ON COLUMN queue_group.held_until IS 'Until when no job of the group is fetched; null or past: it is not held.';
COMMENT ON CONSTRAINT queue_group_pkey ON queue_group IS 'One row a group.';
COMMENT ON CONSTRAINT queue_group_times_finite ON queue_group IS 'A fetch answers when the next job may start.';

CREATE TABLE maintenance (
    service text COLLATE "C" NOT NULL,
    holder uuid,
    runner text COLLATE "C",
    taken_at timestamptz,
    leased_until timestamptz NOT NULL,
    ran_at timestamptz,
    CONSTRAINT maintenance_pkey PRIMARY KEY (service)
) WITH (fillfactor = 50);
COMMENT ON TABLE maintenance IS
    'One row a maintenance service (promoter, rescuer, pruner, periodic, reindexer), entered by the first runner that offers it. The lease makes one runner do it, to spare the others the work; two at once would do no harm.';
COMMENT ON COLUMN maintenance.service IS 'The service''s name.';
COMMENT ON COLUMN maintenance.holder IS 'The runner''s process that has the lease; null: none. An id made at its start, which stays when the runner goes on under a new runner.id.';
COMMENT ON COLUMN maintenance.runner IS 'The holder''s name, as in runner.name.';
COMMENT ON COLUMN maintenance.taken_at IS 'When the lease was last taken or extended. In the future: the clock went back, and the lease is free.';
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

-- The rate is GCRA, the generic cell rate algorithm: one time says it all. Where all of the burst is there again at full_at,
-- a part of it is there now.
CREATE FUNCTION rate_tokens(rate_count integer, rate_period interval, rate_burst integer, full_at timestamptz, at timestamptz)
    RETURNS integer
    LANGUAGE sql IMMUTABLE
    RETURN CASE
        WHEN rate_count IS NOT NULL THEN greatest(0, floor(
            rate_burst - greatest(0, extract(epoch FROM full_at - at)) * rate_count / extract(epoch FROM rate_period)
        ))::integer
    END;
COMMENT ON FUNCTION rate_tokens(integer, interval, integer, timestamptz, timestamptz) IS
    'How many jobs a rate lets start at a time, where full_at is when all of its burst is there; null: there is no rate.';

CREATE FUNCTION rate_time(jobs integer, rate_count integer, rate_period interval) RETURNS interval
    LANGUAGE sql IMMUTABLE
    -- In seconds, since days depend on the time zone; rounded up, so that a rate is never exceeded.
    RETURN make_interval(
        secs => ceil(extract(epoch FROM rate_period) * 1000000 * jobs / rate_count)::double precision / 1000000
    );
COMMENT ON FUNCTION rate_time(integer, integer, interval) IS 'How long a rate takes for that many jobs.';

CREATE FUNCTION next_token_at(rate_count integer, rate_period interval, rate_burst integer, full_at timestamptz)
    RETURNS timestamptz
    LANGUAGE sql STABLE
    RETURN full_at - rate_time(rate_burst - 1, rate_count, rate_period);
COMMENT ON FUNCTION next_token_at(integer, interval, integer, timestamptz) IS
    'From when on a rate lets a job start; null: there is no rate, or nothing started yet.';

CREATE FUNCTION lock_queue(queue_name text) RETURNS queue
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET lock_timeout = '200ms'
AS $$
DECLARE
    settings queue;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = format('queue %s has groups, a limit or a rate, which need READ COMMITTED', queue_name),
            HINT = 'Set default_transaction_isolation of the role that runs jobs to read committed.';
    END IF;
    SELECT q.* INTO settings FROM queue AS q WHERE q.name = queue_name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO queue (name) VALUES (queue_name) ON CONFLICT DO NOTHING;
        SELECT q.* INTO settings FROM queue AS q WHERE q.name = queue_name FOR NO KEY UPDATE;
    END IF;
    RETURN settings;
EXCEPTION
    WHEN lock_not_available THEN
        RETURN NULL;
END
$$;
COMMENT ON FUNCTION lock_queue(text) IS
    'Locks the row of a queue until the transaction ends, and makes it where there is none. Answers with it; null where another transaction has it locked for longer than 200 ms. Error 0A000 under another isolation level than READ COMMITTED.';

CREATE FUNCTION free_places(queue_name text, wanted integer) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- One plan, made once, that reads by index however small the table was when it was made.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
AS $$
-- The number of jobs of a queue, at most the wanted one, that a fetch may start. The fetch's own snapshot is from before
-- it waited for the queue's row, and does not see what was started meanwhile; a statement that
-- begins with the row in hand does. The row stays locked until the fetch has committed, so that
-- nobody counts in between. Fetches take the rows of their queues in one order.
DECLARE
    settings CONSTANT queue := lock_queue(queue_name);
    places integer;
    running integer;
BEGIN
    -- Where another transaction has the row for long, other queues must not wait for that; this one is asked for again.
    IF settings.name IS NULL OR settings.paused_at IS NOT NULL OR settings.held_until > clock_timestamp() THEN
        RETURN 0;
    END IF;
    places := least(wanted, rate_tokens(
        settings.rate_count, settings.rate_period, settings.rate_burst, settings.rate_full_at, clock_timestamp()
    ));
    IF settings.max_running IS NULL OR places = 0 THEN
        RETURN places;
    END IF;
    SELECT count(*)
    INTO running
    FROM (
        SELECT FROM job AS j
        WHERE j.queue = queue_name AND j.state = 'running'
        LIMIT settings.max_running
    ) AS r;
    RETURN least(places, settings.max_running - running);
END
$$;
COMMENT ON FUNCTION free_places(text, integer) IS
    'The number of jobs of a queue, at most the wanted one, that a fetch may start under queue.max_running and the queue''s rate. The function locks the queue''s row until the transaction ends; 0 where somebody else has it for longer than 200 ms. Error 0A000 under another isolation level than READ COMMITTED.';

CREATE FUNCTION spend_tokens(queue_names text[], group_keys text[], at timestamptz) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
-- The fetch has the rows of the queues locked since it counted their tokens, so the tokens are still there. They are
-- spent at the time that the jobs started, or the time between would be given away at each fetch.
BEGIN
    UPDATE queue AS q
    SET rate_full_at = greatest(q.rate_full_at, spend_tokens.at) + rate_time(n.jobs, q.rate_count, q.rate_period)
    FROM (
        SELECT s.queue COLLATE "C" AS queue, count(*)::integer AS jobs
        FROM unnest(queue_names) AS s (queue)
        GROUP BY s.queue COLLATE "C"
    ) AS n
    WHERE q.name = n.queue AND q.rate_count IS NOT NULL;
    INSERT INTO queue_group AS g (queue, group_key, rate_full_at)
    SELECT q.name, n.group_key, spend_tokens.at + rate_time(n.jobs, q.group_rate_count, q.group_rate_period)
    FROM (
        SELECT s.queue COLLATE "C" AS queue, s.group_key COLLATE "C" AS group_key, count(*)::integer AS jobs
        FROM unnest(queue_names, group_keys) AS s (queue, group_key)
        WHERE s.group_key IS NOT NULL
        GROUP BY s.queue COLLATE "C", s.group_key COLLATE "C"
    ) AS n
    JOIN queue AS q ON q.name = n.queue AND q.group_rate_count IS NOT NULL
    -- The order in which hold_back locks them.
    ORDER BY n.queue, n.group_key
    ON CONFLICT ON CONSTRAINT queue_group_pkey DO UPDATE
    SET rate_full_at = greatest(g.rate_full_at, spend_tokens.at)
        + make_interval(secs => extract(epoch FROM excluded.rate_full_at - spend_tokens.at)::double precision);
    RETURN cardinality(queue_names);
END
$$;
COMMENT ON FUNCTION spend_tokens(text[], text[], timestamptz) IS
    'Spends a token of a queue''s rate, and of its group''s, for each job that started at that time: its queue and its group, or null. Changes nothing where there is no rate. The caller has locked the rows of the queues. Returns the number of jobs.';

CREATE FUNCTION group_tokens(settings queue, full_at timestamptz, held_until timestamptz, at timestamptz) RETURNS integer
    LANGUAGE sql IMMUTABLE
    RETURN CASE
        WHEN held_until > at THEN 0
        ELSE rate_tokens(
            (settings).group_rate_count, (settings).group_rate_period, (settings).group_rate_burst, full_at, at
        )
    END;
COMMENT ON FUNCTION group_tokens(queue, timestamptz, timestamptz, timestamptz) IS
    'How many jobs of a group may start at a time, by its times in queue_group; null: it is not held, and its queue''s groups have no rate.';

CREATE FUNCTION group_due_at(settings queue, full_at timestamptz, held_until timestamptz) RETURNS timestamptz
    LANGUAGE sql STABLE
    RETURN greatest(held_until, next_token_at(
        (settings).group_rate_count, (settings).group_rate_period, (settings).group_rate_burst, full_at
    ));
COMMENT ON FUNCTION group_due_at(queue, timestamptz, timestamptz) IS
    'When a group that is held or has no token may start a job, by its times in queue_group.';

CREATE FUNCTION available_jobs(queue_name text, most bigint) RETURNS TABLE (
    id uuid, kind text, attempt smallint, priority smallint, scheduled_at timestamptz, created_at timestamptz,
    has_group boolean
)
    LANGUAGE sql STABLE
    ROWS 100
-- Without settings of its own: so it becomes a part of the statement that calls it, which reads no column that it does not
-- need. Each part is in the order of its index, so that its scan stops at the limit.
BEGIN ATOMIC
    (
        SELECT j.id, j.kind::text, j.attempt::smallint, j.priority, j.scheduled_at, j.created_at, false
        FROM job AS j
        WHERE j.queue = queue_name AND j.group_key IS NULL AND j.state = 'available'
        ORDER BY j.priority DESC, j.scheduled_at, j.id
        LIMIT most
    )
    UNION ALL
    (
        SELECT j.id, j.kind::text, j.attempt::smallint, j.priority, j.scheduled_at, j.created_at, true
        FROM job AS j
        WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available'
        ORDER BY j.priority DESC, j.group_key, j.scheduled_at, j.id
        LIMIT most
    );
END;
COMMENT ON FUNCTION available_jobs(text, bigint) IS
    'The first available jobs of a queue: those without a group in the order of work, then those of groups by priority and key, at most so many of each.';

CREATE FUNCTION next_group(queue_name text, level smallint, after_key text, except_ids uuid[]) RETURNS TABLE (
    group_key text, id uuid, kind text, crashes smallint, group_limit smallint, in_order boolean, scheduled_at timestamptz
)
    LANGUAGE sql STABLE
    ROWS 1
-- Without settings of its own: so it becomes a part of the statement that calls it, which stops when it has enough.
BEGIN ATOMIC
    SELECT
        j.group_key::text COLLATE "C", j.id, j.kind::text, j.crashes::smallint, j.group_limit::smallint, j.in_order,
        j.scheduled_at
    FROM job AS j
    WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available' AND j.priority = level
        AND j.group_key > after_key COLLATE "C" AND j.id <> ALL (except_ids)
    ORDER BY j.group_key, j.scheduled_at, j.id
    LIMIT 1;
END;
COMMENT ON FUNCTION next_group(text, smallint, text, uuid[]) IS
    'The first available job of the next group of a queue that has one at this priority: the group with the first key after after_key.';

CREATE FUNCTION group_ring(
    queue_name text, level smallint, after_group text, visits integer, freed_groups text[], except_ids uuid[]
) RETURNS TABLE (
    group_key text, id uuid, kind text, crashes smallint, group_limit smallint, in_order boolean, scheduled_at timestamptz,
    part integer
)
    LANGUAGE sql STABLE
    ROWS 100
BEGIN ATOMIC
    WITH RECURSIVE onward AS (
        SELECT n.* FROM next_group(queue_name, level, after_group, except_ids) AS n
        UNION ALL
        SELECT n.* FROM onward AS o CROSS JOIN LATERAL next_group(queue_name, level, o.group_key, except_ids) AS n
    ),
    from_start AS (
        SELECT n.*
        FROM next_group(queue_name, level, '', except_ids) AS n
        WHERE n.group_key <= after_group COLLATE "C"
        UNION ALL
        SELECT n.*
        FROM from_start AS s
        CROSS JOIN LATERAL next_group(queue_name, level, s.group_key, except_ids) AS n
        WHERE n.group_key <= after_group COLLATE "C"
    ),
    ring AS (
        SELECT o.*, 1 AS part FROM onward AS o
        UNION ALL
        SELECT s.*, 2 AS part FROM from_start AS s
        LIMIT visits
    )
    SELECT r.group_key, r.id, r.kind, r.crashes, r.group_limit, r.in_order, r.scheduled_at, r.part FROM ring AS r
    UNION ALL
    SELECT n.*, 3 AS part
    FROM unnest(freed_groups) AS g (name)
    CROSS JOIN LATERAL (
        SELECT
            j.group_key::text COLLATE "C", j.id, j.kind::text, j.crashes::smallint, j.group_limit::smallint, j.in_order,
            j.scheduled_at
        FROM job AS j
        WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available' AND j.priority = level
            AND j.group_key = g.name COLLATE "C" AND j.id <> ALL (except_ids)
        ORDER BY j.scheduled_at, j.id
        LIMIT 1
    ) AS n
    WHERE g.name COLLATE "C" NOT IN (SELECT r.group_key FROM ring AS r);
END;
COMMENT ON FUNCTION group_ring(text, smallint, text, integer, text[], uuid[]) IS
    'The groups of a queue with available jobs at this priority, each with its first one: at most so many in the order of their keys, from the first key after after_group on (part 1) and then from the start (part 2), and after them the freed groups (part 3).';

CREATE TYPE group_choice AS (
    id uuid,
    group_key text COLLATE "C",
    priority smallint,
    scheduled_at timestamptz,
    round integer,
    place integer,
    is_suspect boolean,
    counted integer,
    most integer,
    is_blocked boolean
);
COMMENT ON TYPE group_choice IS
    'A job of a group that a fetch chose. round: 1 for the first job of its group, 2 for the second. place: of its group among those visited. counted: how many jobs of the group run or are chosen, this one included. most: how many may, by the group''s tokens; null: any number. is_blocked: whether none may follow it.';

CREATE TYPE group_search AS (
    queue text,
    kinds text[],
    wanted integer,
    suspects integer,
    is_alone boolean,
    except_ids uuid[],
    visits integer,
    after_group text COLLATE "C",
    freed_groups text[],
    are_rated boolean,
    chosen group_choice[],
    places integer,
    turn_levels smallint[],
    turn_places integer[],
    all_visits integer,
    ran_out_part integer,
    ran_out_at text COLLATE "C",
    suspects_taken integer,
    suspects_seen integer,
    alone_crashes smallint,
    next_at timestamptz
);
COMMENT ON TYPE group_search IS
    'What a fetch looks for among the groups of a queue, as the arguments of jobs_of_groups, and what it has found so far. are_rated: whether a group can be without a token, or held. turn_levels, turn_places: where the jobs without a group have their turn at each priority. ran_out_part, ran_out_at: the group at which the visits ran out, and its part of the ring.';

CREATE FUNCTION choose_heads(search group_search, settings queue, level smallint, above smallint[]) RETURNS group_search
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
DECLARE
    head record;
    kinds CONSTANT text[] := search.kinds;
    are_rated CONSTANT boolean := search.are_rated;
    chosen group_choice[] := search.chosen;
    place integer := search.places;
    visited integer := 0;
    last_part integer;
    last_key text COLLATE "C";
    has_turn boolean := false;
    tokens integer;
    taken integer;
BEGIN
    FOR head IN
        SELECT
            r.*, t.rate_full_at, t.held_until, h.running::integer AS running, h.has_begun IS TRUE AS has_begun,
            CASE
                WHEN h.has_begun THEN h.is_available
                ELSE r.kind = ANY (kinds) AND (h.running < least(
                    CASE WHEN r.in_order THEN 1 END, r.group_limit, settings.max_per_group
                )) IS NOT FALSE
            END AS has_place
        FROM group_ring(
            search.queue, level, search.after_group, search.visits, search.freed_groups, search.except_ids
        ) AS r
        LEFT JOIN LATERAL (
            SELECT g.rate_full_at, g.held_until
            FROM queue_group AS g
            WHERE are_rated AND g.queue = search.queue AND g.group_key = r.group_key
            -- So that each is looked up, and not compared with all groups of the queue.
            LIMIT 1
        ) AS t ON true
        CROSS JOIN LATERAL (
            SELECT
                count(*) FILTER (WHERE k.state = 'running') AS running,
                bool_or(k.state <> 'running') AS has_begun,
                bool_or(k.state = 'available') AS is_available
            FROM job AS k
            WHERE k.queue = search.queue AND k.group_key = r.group_key AND k.group_key IS NOT NULL
                AND k.finalized_at IS NULL AND (k.state = 'running' OR k.began IS NOT NULL)
        ) AS h
    LOOP
        IF head.part < 3 THEN
            visited := visited + 1;
            IF visited = search.visits THEN
                last_part := head.part;
                last_key := head.group_key;
            END IF;
        END IF;
        -- Most of many groups are blocked: their limit is reached, there is no worker for the kind of the first job, or the
        -- job that began waits for its retry.
        CONTINUE WHEN NOT are_rated AND NOT head.has_place;
        place := place + 1;
        IF head.part > 1 AND NOT has_turn THEN
            has_turn := true;
            search.turn_levels := search.turn_levels || level;
            search.turn_places := search.turn_places || place;
            place := place + 1;
        END IF;
        tokens := NULL;
        IF are_rated THEN
            tokens := group_tokens(settings, head.rate_full_at, head.held_until, clock_timestamp());
            IF tokens = 0 THEN
                search.next_at := least(search.next_at, group_due_at(settings, head.rate_full_at, head.held_until));
                CONTINUE;
            END IF;
        END IF;
        CONTINUE WHEN NOT head.has_place;
        IF head.has_begun THEN
            -- The job that began is first, wherever its priority would place it.
            SELECT j.id, j.kind, j.crashes, j.group_limit, j.in_order, j.scheduled_at
            INTO head.id, head.kind, head.crashes, head.group_limit, head.in_order, head.scheduled_at
            FROM job AS j
            WHERE j.queue = search.queue AND j.group_key = head.group_key AND j.group_key IS NOT NULL
                AND j.finalized_at IS NULL AND j.began IS NOT NULL AND j.state = 'available'
                AND j.id <> ALL (search.except_ids)
            ORDER BY j.id
            LIMIT 1;
            CONTINUE WHEN NOT FOUND OR head.id IN (SELECT c.id FROM unnest(chosen) AS c);
        ELSIF cardinality(above) > 0 AND group_waits_above(search, chosen, head.group_key, above) THEN
            CONTINUE;
        END IF;
        taken := 0;
        IF cardinality(above) > 0 THEN
            taken := (SELECT count(*) FROM unnest(chosen) AS c WHERE c.group_key = head.group_key);
        END IF;
        CONTINUE WHEN head.kind <> ALL (kinds) OR head.running + taken >= least(
            CASE WHEN head.in_order THEN 1 END, head.group_limit, settings.max_per_group, head.running + tokens
        );
        IF head.crashes > 0 THEN
            search.suspects_seen := search.suspects_seen + (head.crashes = 1)::integer;
            search.alone_crashes := least(search.alone_crashes, CASE WHEN head.crashes > 1 THEN head.crashes END);
            CONTINUE WHEN (head.crashes > 1) <> search.is_alone OR search.suspects_taken >= search.suspects;
            search.suspects_taken := search.suspects_taken + 1;
        END IF;
        CONTINUE WHEN search.is_alone AND head.crashes < 2;
        chosen := chosen || ROW(
            head.id, head.group_key, level, head.scheduled_at, 1, place, head.crashes > 0, head.running + taken + 1,
            head.running + tokens, head.has_begun
        )::group_choice;
        EXIT WHEN cardinality(chosen) >= search.wanted;
    END LOOP;
    search.all_visits := search.all_visits + visited;
    -- The next fetch goes on where this level ran out of visits; of several levels, at the one that came least far.
    IF last_part IS NOT NULL AND (head.part = 3 OR cardinality(chosen) < search.wanted)
        AND (search.ran_out_part IS NULL OR (last_part, last_key) < (search.ran_out_part, search.ran_out_at))
    THEN
        search.ran_out_part := last_part;
        search.ran_out_at := last_key;
    END IF;
    IF NOT has_turn THEN
        place := place + 1;
        search.turn_levels := search.turn_levels || level;
        search.turn_places := search.turn_places || place;
    END IF;
    search.chosen := chosen;
    search.places := place;
    RETURN search;
END
$$;
COMMENT ON FUNCTION choose_heads(group_search, queue, smallint, smallint[]) IS
    'Chooses the first jobs of the groups that may start one, among those with available jobs at this priority. above: the priorities that the search has been at. Reads one entry of job_group for each group, its entries of job_group_held, and in a queue whose groups have a rate or are held its row of queue_group.';

CREATE FUNCTION group_waits_above(search group_search, chosen group_choice[], group_key text, above smallint[]) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM unnest(above) AS a (priority)
        CROSS JOIN LATERAL (
            SELECT j.id
            FROM job AS j
            WHERE j.queue = search.queue AND j.group_key IS NOT NULL AND j.state = 'available'
                AND j.priority = a.priority AND j.group_key = group_waits_above.group_key COLLATE "C"
                AND j.id <> ALL (ARRAY(SELECT c.id FROM unnest(chosen) AS c) || search.except_ids)
            ORDER BY j.scheduled_at, j.id
            LIMIT 1
        ) AS w
    );
END
$$;
COMMENT ON FUNCTION group_waits_above(group_search, group_choice[], text, smallint[]) IS
    'Whether a job of the group waits at a higher priority and was not chosen there: then the group is blocked.';

CREATE FUNCTION choose_more(search group_search, settings queue, level smallint) RETURNS group_search
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
DECLARE
    chosen group_choice[] := search.chosen;
    more record;
    spot integer;
    missing CONSTANT integer := search.wanted - cardinality(chosen);
    heads CONSTANT integer := (SELECT count(*) FROM unnest(chosen) AS c WHERE c.priority = level);
BEGIN
    IF missing <= 0 OR heads = 0 THEN
        RETURN search;
    END IF;
    FOR more IN
        SELECT g.spot::integer AS spot, n.*
        FROM unnest(chosen) WITH ORDINALITY
            AS g (id, group_key, priority, scheduled_at, round, place, is_suspect, counted, most, is_blocked, spot)
        CROSS JOIN LATERAL (
            SELECT w.*, row_number() OVER (ORDER BY w.scheduled_at, w.id) + 1 AS round
            FROM (
                SELECT j.id, j.kind, j.crashes, j.group_limit, j.in_order, j.scheduled_at
                FROM job AS j
                WHERE j.queue = search.queue AND j.group_key IS NOT NULL AND j.state = 'available'
                    AND j.priority = level AND j.group_key = g.group_key
                    AND (j.scheduled_at, j.id) > (g.scheduled_at, g.id) AND j.id <> ALL (search.except_ids)
                ORDER BY j.scheduled_at, j.id
                LIMIT 2 * missing / heads + 1
            ) AS w
        ) AS n
        WHERE g.priority = level AND NOT g.is_blocked
        ORDER BY n.round, g.spot
    LOOP
        spot := more.spot;
        CONTINUE WHEN chosen[spot].is_blocked;
        IF chosen[spot].counted >= least(
                CASE WHEN more.in_order THEN 1 END, more.group_limit, settings.max_per_group, chosen[spot].most
            )
            OR more.kind <> ALL (search.kinds) OR more.crashes > 1
            OR (more.crashes = 1 AND search.suspects_taken >= search.suspects)
        THEN
            chosen[spot].is_blocked := true;
            CONTINUE;
        END IF;
        search.suspects_taken := search.suspects_taken + (more.crashes > 0)::integer;
        search.suspects_seen := search.suspects_seen + (more.crashes > 0)::integer;
        chosen[spot].counted := chosen[spot].counted + 1;
        chosen := chosen || (
            more.id, chosen[spot].group_key, level, more.scheduled_at, more.round, chosen[spot].place,
            more.crashes > 0, NULL, NULL, true
        )::group_choice;
        EXIT WHEN cardinality(chosen) >= search.wanted;
    END LOOP;
    search.chosen := chosen;
    RETURN search;
END
$$;
COMMENT ON FUNCTION choose_more(group_search, queue, smallint) IS
    'Chooses the second jobs of the groups whose first jobs were chosen at this priority, then the third ones, and so on.';

CREATE FUNCTION keep_first(search group_search, fair boolean, OUT ids uuid[], OUT reached text)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
BEGIN
    WITH candidate AS (
        SELECT c.id, c.group_key, c.priority, c.scheduled_at, c.round, c.place
        FROM unnest(search.chosen) AS c
        UNION ALL
        SELECT
            u.id, NULL, u.priority, u.scheduled_at,
            row_number() OVER (PARTITION BY u.priority ORDER BY u.scheduled_at, u.id)::integer,
            coalesce((
                SELECT t.place
                FROM unnest(search.turn_levels, search.turn_places) AS t (priority, place)
                WHERE t.priority = u.priority
            ), 0)
        FROM (
            SELECT j.id, j.priority, j.scheduled_at
            FROM job AS j
            WHERE j.queue = search.queue AND j.group_key IS NULL AND j.state = 'available' AND j.crashes = 0
                AND j.kind = ANY (search.kinds) AND j.id <> ALL (search.except_ids) AND NOT search.is_alone
            ORDER BY j.priority DESC, j.scheduled_at, j.id
            LIMIT search.wanted
            -- A job that another transaction has locked takes no place from a group.
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS u
    ),
    kept AS (
        SELECT c.id, c.group_key, c.priority, c.round, c.place
        FROM candidate AS c
        ORDER BY c.priority DESC, CASE WHEN fair THEN c.round END, CASE WHEN fair THEN c.place END, c.scheduled_at, c.id
        LIMIT search.wanted
    )
    SELECT
        coalesce(array_agg(k.id) FILTER (WHERE k.group_key IS NOT NULL), '{}'),
        -- The next fetch begins behind the last turn, unless a level ran out of visits or only freed groups were visited.
        CASE
            WHEN search.visits <= 0 THEN search.after_group
            WHEN search.ran_out_at IS NOT NULL THEN search.ran_out_at
            ELSE coalesce(
                (array_agg(coalesce(k.group_key, '') ORDER BY k.priority, k.round DESC, k.place DESC)
                    FILTER (WHERE fair OR k.group_key IS NOT NULL))[1],
                search.after_group
            )
        END
    INTO ids, reached
    FROM kept AS k;
END
$$;
COMMENT ON FUNCTION keep_first(group_search, boolean) IS
    'Keeps the chosen jobs that win their places against jobs without a group. Also returns the group after which the next fetch continues.';

CREATE FUNCTION lock_chosen(search group_search, ids uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
DECLARE
    locked CONSTANT uuid[] := ARRAY(
        SELECT j.id FROM job AS j WHERE j.id = ANY (ids) AND j.state = 'available' FOR NO KEY UPDATE SKIP LOCKED
    );
BEGIN
    IF cardinality(locked) = cardinality(ids) THEN
        RETURN ids;
    END IF;
    RETURN ARRAY(
        SELECT l.id
        FROM (
            SELECT
                c.id, c.id = ANY (locked) AS is_locked,
                -- Jobs of a group were chosen in its order.
                bool_and(c.id = ANY (locked)) OVER (PARTITION BY c.group_key ORDER BY c.spot) AS are_locked
            FROM unnest(search.chosen) WITH ORDINALITY
                AS c (id, group_key, priority, scheduled_at, round, place, is_suspect, counted, most, is_blocked, spot)
            WHERE c.id = ANY (ids)
        ) AS l
        WHERE l.are_locked
    );
END
$$;
COMMENT ON FUNCTION lock_chosen(group_search, uuid[]) IS
    'Locks jobs that were chosen, without waiting. Answers with those it locked, of each group up to the first that it could not.';

CREATE FUNCTION jobs_of_groups(
    queue_name text,
    kinds text[],
    wanted integer,
    suspects integer,
    is_alone boolean,
    except_ids uuid[],
    visits integer,
    after_group text,
    freed_groups text[],
    OUT ids uuid[],
    OUT reached text,
    OUT has_startable boolean,
    OUT suspects_taken integer,
    OUT suspects_seen integer,
    OUT alone_crashes smallint,
    OUT is_rated boolean,
    OUT next_at timestamptz
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- One plan, made once, that reads by index however small the table was when it was made.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
#variable_conflict use_variable
-- States of a group in one fetch: not visited; startable, whose first jobs are chosen; blocked, from its first job on that
-- may not start. Nothing starts behind a job that blocks.
--
-- Invariants: the queue's row is locked before anything is counted, and each statement here sees what was committed
-- before it begins, so no other fetch starts a job of the queue meanwhile. What ends meanwhile only makes more room. A
-- job is chosen without a lock, then locked without waiting; where that fails its group gives nothing from there on.
DECLARE
    settings CONSTANT queue := lock_queue(queue_name);
    search group_search;
    level smallint;
    above smallint[] := '{}';
    kept record;
BEGIN
    ids := '{}';
    has_startable := false;
    suspects_taken := 0;
    suspects_seen := 0;
    IF settings.name IS NULL OR settings.paused_at IS NOT NULL OR settings.held_until > clock_timestamp() THEN
        RETURN;
    END IF;
    is_rated := settings.group_rate_count IS NOT NULL;
    search := (
        queue_name, kinds, wanted, suspects, is_alone, except_ids, visits, after_group, freed_groups,
        is_rated OR EXISTS (SELECT FROM queue_group AS g WHERE g.queue = queue_name),
        '{}', 0, '{}', '{}', 0, NULL, NULL, 0, 0, NULL, NULL
    );
    LOOP
        -- The next level of priority.
        SELECT j.priority INTO level
        FROM job AS j
        WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available'
            AND j.priority < coalesce(above[cardinality(above)]::integer, 32768)
        ORDER BY j.priority DESC
        LIMIT 1;
        EXIT WHEN NOT FOUND;
        search := choose_heads(search, settings, level, above);
        IF NOT is_alone THEN
            search := choose_more(search, settings, level);
        END IF;
        -- So that a fetch ends: the levels below have their turn when these have fewer jobs.
        EXIT WHEN cardinality(search.chosen) >= wanted OR cardinality(above) >= 1000
            OR search.all_visits >= 10 * greatest(visits, 1000);
        above := above || level;
    END LOOP;
    suspects_taken := search.suspects_taken;
    suspects_seen := search.suspects_seen;
    alone_crashes := search.alone_crashes;
    next_at := search.next_at;
    IF cardinality(search.chosen) = 0 THEN
        reached := coalesce(search.ran_out_at, after_group);
        RETURN;
    END IF;
    has_startable := true;
    SELECT k.ids, k.reached INTO kept FROM keep_first(search, settings.fair) AS k;
    ids := lock_chosen(search, kept.ids);
    reached := kept.reached;
    IF cardinality(ids) < cardinality(kept.ids) THEN
        suspects_taken := (SELECT count(*) FROM unnest(search.chosen) AS c WHERE c.is_suspect AND c.id = ANY (ids));
    END IF;
END
$$;
COMMENT ON FUNCTION jobs_of_groups(text, text[], integer, integer, boolean, uuid[], integer, text, text[]) IS
    'The jobs of groups of a queue that a fetch may start now, of these kinds, at most wanted; locks them and the queue''s row until the transaction ends. Suspects and is_alone: as in a fetch. Groups take turns within a priority, from the first key after after_group on; visits says how many of them to visit at each priority, and freed_groups which ones in any case. reached: where the next fetch goes on; after_group, where none could start: all were visited; null: nothing was visited, since the queue is paused or held, or its row is locked. has_startable: whether any could start. alone_crashes: the fewest crashes of a job that could start if it ran alone. is_rated: whether the jobs that start spend tokens of their groups. next_at: when the first group that has no token, or is held, may start a job.';

CREATE FUNCTION plain_jobs(
    worker_id uuid,
    queues jsonb,
    kinds text[],
    except_ids uuid[],
    cursor_queues text[],
    cursor_priorities smallint[],
    cursor_times timestamptz[],
    cursor_ids uuid[]
) RETURNS TABLE (wanted jsonb, is_guarded boolean, ids uuid[], returning_ids uuid[], leaves_out boolean)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
-- One statement finds out what guards a queue and scans it, so no limit that is committed together with jobs is missed.
-- What guards single jobs, a group or a crash, is asked of each job as well.
BEGIN
    RETURN QUERY
    SELECT
        w.wanted, w.is_guarded, coalesce(h.ids, '{}') || c.ids, coalesce(h.returning_ids, '{}') || c.returning_ids,
        coalesce(h.leaves_out, false) OR coalesce(c.leaves_out, false)
    FROM (
        SELECT
            e.wanted, d.name, d.free, d.idle, d.name = ANY (cursor_queues) AS has_cursor,
            d.has_row IS NOT TRUE AND coalesce(
                q.paused_at IS NOT NULL OR q.max_running IS NOT NULL OR q.rate_count IS NOT NULL
                    OR q.held_until > clock_timestamp(),
                false
            ) OR d.is_past_guard IS NOT TRUE AND coalesce(
                -- The first entry of each index. EXISTS would let the planner read all of them into a hash.
                (
                    SELECT true
                    FROM job AS j
                    WHERE j.queue = d.name AND j.group_key IS NULL AND j.state = 'available' AND j.crashes > 0
                        AND j.kind = ANY (kinds) AND j.id <> ALL (except_ids)
                    ORDER BY j.crashes
                    LIMIT 1
                ),
                (
                    SELECT true
                    FROM job AS j
                    WHERE j.queue = d.name AND j.group_key IS NOT NULL AND j.state = 'available'
                    ORDER BY j.priority DESC
                    LIMIT 1
                ),
                false
            ) AS is_guarded
        FROM jsonb_array_elements(queues) AS e (wanted)
        CROSS JOIN LATERAL jsonb_to_record(e.wanted)
            AS d (name text, free integer, idle integer, is_past_guard boolean, has_row boolean)
        LEFT JOIN queue AS q ON q.name = d.name
        -- A runner that has not noticed yet that its lease ran out would take what was just rescued.
        WHERE EXISTS (SELECT FROM runner AS r WHERE r.id = worker_id AND r.leased_until > clock_timestamp())
        -- Each queue is asked once.
        OFFSET 0
    ) AS w
    -- From the head of the queue.
    CROSS JOIN LATERAL (
        SELECT
            array_agg(n.id) FILTER (WHERE n.max_attempts > 1 OR n.place <= w.idle) AS ids,
            array_agg(n.id) FILTER (WHERE n.returns AND (n.max_attempts > 1 OR n.place <= w.idle)) AS returning_ids,
            bool_or(n.max_attempts = 1 AND n.place > w.idle) AS leaves_out
        FROM (
            SELECT n.id, n.max_attempts, n.returns, row_number() OVER () AS place
            FROM (
                SELECT
                    j.id, j.max_attempts,
                    j.unique_yielded OR enters_claim(j.unique_states, 'available', 'running') AS returns
                FROM job AS j
                WHERE j.queue = w.name AND j.group_key IS NULL AND j.state = 'available' AND j.crashes = 0
                    AND j.kind = ANY (kinds) AND j.id <> ALL (except_ids)
                ORDER BY j.priority DESC, j.scheduled_at, j.id
                LIMIT CASE WHEN w.is_guarded OR w.has_cursor THEN 0 ELSE w.free END
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS n
        ) AS n
    ) AS h
    -- From the positions of the cursor on.
    CROSS JOIN LATERAL (
        SELECT
            array_agg(n.id) FILTER (WHERE n.max_attempts > 1 OR n.place <= w.idle) AS ids,
            array_agg(n.id) FILTER (WHERE n.returns AND (n.max_attempts > 1 OR n.place <= w.idle)) AS returning_ids,
            bool_or(n.max_attempts = 1 AND n.place > w.idle) AS leaves_out
        FROM (
            SELECT n.id, n.max_attempts, n.returns, row_number() OVER () AS place
            -- unnest keeps the order of the positions.
            FROM unnest(cursor_queues, cursor_priorities, cursor_times, cursor_ids)
                AS p (queue, priority, scheduled_at, id)
            CROSS JOIN LATERAL (
                SELECT
                    j.id, j.max_attempts,
                    j.unique_yielded OR enters_claim(j.unique_states, 'available', 'running') AS returns
                FROM job AS j
                WHERE j.queue = p.queue AND j.group_key IS NULL AND j.state = 'available' AND j.crashes = 0
                    AND j.priority = p.priority AND (j.scheduled_at, j.id) > (p.scheduled_at, p.id)
                    AND j.kind = ANY (kinds) AND j.id <> ALL (except_ids)
                ORDER BY j.scheduled_at, j.id
                LIMIT w.free
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS n
            WHERE w.has_cursor AND p.queue = w.name
            LIMIT CASE WHEN w.is_guarded THEN 0 ELSE w.free END
        ) AS n
    ) AS c;
END
$$;
COMMENT ON FUNCTION plain_jobs(uuid, jsonb, text[], uuid[], text[], smallint[], timestamptz[], uuid[]) IS
    'The next jobs that have neither a group nor a crash, of each of these queues and of these kinds. Locks them until the transaction ends. The queues are an array of {"name", "free", "idle"}: at most free jobs, of which only the first idle ones may have a single attempt. is_guarded: the queue gives nothing, since it is paused, held or limited, has a rate, or has jobs with a group or a crash; {"is_past_guard": true} does not ask for such jobs, and {"has_row": true} does not ask for the settings either, since the transaction has the queue''s row locked. returning_ids: the jobs that come back to their unique states. leaves_out: whether jobs with a single attempt were left out.';

CREATE FUNCTION guarded_jobs(
    wanted jsonb,
    kinds text[],
    except_ids uuid[],
    suspects integer,
    is_alone boolean,
    OUT ids uuid[],
    OUT suspects_taken integer,
    OUT is_rated boolean,
    OUT rest jsonb,
    OUT facts jsonb
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    w record;
    g record;
    settings queue;
    locked queue;
    fewest_crashes smallint;
    has_groups boolean;
    visits_groups boolean;
    slots integer;
    began_at timestamptz;
    next_at timestamptz;
BEGIN
    SELECT d.* INTO w
    FROM jsonb_to_record(wanted)
        AS d (name text, free integer, idle integer, after_group text, visits integer, freed text[]);
    -- Of the suspect with the fewest crashes.
    fewest_crashes := (
        SELECT j.crashes
        FROM job AS j
        WHERE j.queue = w.name AND j.state = 'available' AND j.crashes > 0 AND j.group_key IS NULL
            AND j.kind = ANY (kinds) AND j.id <> ALL (except_ids)
        ORDER BY j.crashes
        LIMIT 1
    );
    has_groups := EXISTS (
        SELECT FROM job AS j
        WHERE j.queue = w.name AND j.group_key IS NOT NULL AND j.state = 'available'
        ORDER BY j.priority DESC
        LIMIT 1
    );
    visits_groups := has_groups AND w.idle > 0 AND (w.visits > 0 OR cardinality(w.freed) > 0);
    SELECT q.* INTO settings FROM queue AS q WHERE q.name = w.name;
    IF visits_groups OR settings.max_running IS NOT NULL OR settings.rate_count IS NOT NULL THEN
        -- What was set before the row was locked is seen, and nothing is set until the transaction ends.
        locked := lock_queue(w.name);
        visits_groups := visits_groups AND locked.name IS NOT NULL;
        settings := coalesce(locked, settings);
    END IF;
    slots := CASE
        WHEN settings.paused_at IS NOT NULL OR settings.held_until > clock_timestamp() THEN 0
        WHEN settings.max_running IS NULL AND settings.rate_count IS NULL THEN w.free
        -- A token is not spent ahead.
        ELSE free_places(w.name, CASE WHEN settings.rate_count IS NULL THEN w.free ELSE w.idle END)
    END;
    next_at := CASE
        WHEN settings.paused_at IS NULL THEN greatest(settings.held_until, next_token_at(
            settings.rate_count, settings.rate_period, settings.rate_burst, settings.rate_full_at
        ))
    END;
    -- Suspects first, and only where a slot is idle.
    ids := ARRAY(
        SELECT j.id
        FROM job AS j
        WHERE j.queue = w.name AND j.state = 'available' AND j.crashes > 0 AND j.group_key IS NULL
            AND (j.crashes > 1) = is_alone AND j.kind = ANY (kinds) AND j.id <> ALL (except_ids)
        ORDER BY j.crashes, j.priority DESC, j.scheduled_at, j.id
        LIMIT CASE WHEN fewest_crashes > 0 THEN least(slots, w.idle, suspects) ELSE 0 END
        FOR NO KEY UPDATE SKIP LOCKED
    );
    suspects_taken := cardinality(ids);
    began_at := clock_timestamp();
    SELECT j.* INTO g
    FROM (SELECT WHERE visits_groups AND least(slots, w.idle) > suspects_taken) AS v
    CROSS JOIN LATERAL jobs_of_groups(
        w.name, kinds, least(slots, w.idle) - suspects_taken, suspects - suspects_taken, is_alone, except_ids, w.visits,
        w.after_group, w.freed
    ) AS j
    WHERE j.reached IS NOT NULL;
    ids := ids || g.ids;
    suspects_taken := suspects_taken + coalesce(g.suspects_taken, 0);
    is_rated := settings.rate_count IS NOT NULL OR g.is_rated IS TRUE;
    rest := CASE
        WHEN NOT is_alone AND slots > cardinality(ids) THEN jsonb_build_array(jsonb_build_object(
            'name', w.name, 'free', slots - cardinality(ids), 'idle', w.idle - cardinality(ids),
            'is_past_guard', true, 'has_row', locked.name IS NOT NULL
        ))
    END;
    facts := jsonb_build_object(
        'name', w.name,
        'is_held_back', slots < w.free,
        'is_limited', settings.max_running IS NOT NULL OR settings.rate_count IS NOT NULL,
        'has_suspects', slots > 0 AND (coalesce(fewest_crashes, 0) > 0 OR coalesce(g.suspects_seen, 0) > 0),
        'alone_crashes', least(
            CASE WHEN slots > 0 AND fewest_crashes > 1 THEN fewest_crashes END, CASE WHEN g.suspects_seen = 0 THEN g.alone_crashes END
        ),
        'has_groups', has_groups,
        'visit', CASE
            WHEN g.reached IS NOT NULL THEN jsonb_build_object(
                'reached', g.reached, 'has_startable', g.has_startable,
                'took', extract(epoch FROM clock_timestamp() - began_at)
            )
        END,
        'next_in', extract(epoch FROM least(
            CASE WHEN next_at > clock_timestamp() THEN next_at END, CASE WHEN g.next_at > clock_timestamp() THEN g.next_at END
        ) - clock_timestamp())
    );
END
$$;
COMMENT ON FUNCTION guarded_jobs(jsonb, text[], uuid[], integer, boolean) IS
    'The next suspects and jobs of groups of a queue, of these kinds. Locks them, and where a limit, a rate or a group calls for it the queue''s row, until the transaction ends. wanted: {"name", "free", "idle", "after_group", "visits", "freed"}, the last three as in jobs_of_groups; at most idle jobs. suspects: how many of them to take. is_alone: whether to take nothing but one suspect that crashed twice or more; otherwise no such suspect is taken. rest: what plain_jobs may take after them; null: nothing. is_rated: whether the jobs that start spend tokens. facts: what a runner learns of the queue.';

CREATE FUNCTION fetch_jobs(
    worker_id uuid,
    queues jsonb,
    kinds text[],
    except_ids uuid[],
    suspects integer,
    is_alone boolean,
    cursor_queues text[],
    cursor_priorities smallint[],
    cursor_times timestamptz[],
    cursor_ids uuid[]
) RETURNS TABLE (
    facts jsonb, id uuid, kind short_name, queue short_name, priority smallint, attempt attempt_count,
    max_attempts attempt_limit, created_at timestamptz, scheduled_at timestamptz, args jsonb, meta jsonb, errors jsonb,
    output jsonb, progress jsonb, unique_key key_text, unique_states state_mask, unique_until timestamptz, claims boolean,
    until_start boolean, replaced_by uuid, run integer, crashes smallint, group_key key_text, group_limit group_limit,
    in_order boolean, updates integer, updated_at timestamptz, updated_by uuid, discard_on_reentry boolean
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- One plan, made once, that reads by index however small the table was when it was made.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_column
-- Plain jobs come from queues that nothing guards, in one statement. Each other queue takes its own steps, all queues in
-- one order, so that two fetches never wait for each other. The jobs that are chosen are locked, and start together.
DECLARE
    plain record;
    guarded jsonb[] := '{}';
    guard record;
    wanted jsonb;
    chosen uuid[] := '{}';
    others uuid[] := '{}';
    returning_ids uuid[] := '{}';
    left_out text[] := '{}';
    suspects_left integer := suspects;
    is_rated boolean := false;
    spent record;
    of_queues jsonb := '[]';
    started_at timestamptz;
BEGIN
    IF is_alone THEN
        guarded := ARRAY(
            SELECT e.wanted
            FROM jsonb_array_elements(queues) AS e (wanted)
            WHERE EXISTS (SELECT FROM runner AS r WHERE r.id = worker_id AND r.leased_until > clock_timestamp())
            ORDER BY e.wanted ->> 'name' COLLATE "C"
        );
    ELSE
        FOR plain IN
            SELECT p.*
            FROM plain_jobs(
                worker_id, queues, kinds, except_ids, cursor_queues, cursor_priorities, cursor_times, cursor_ids
            ) AS p
            ORDER BY p.wanted ->> 'name' COLLATE "C"
        LOOP
            guarded := guarded || CASE WHEN plain.is_guarded THEN ARRAY[plain.wanted] END;
            chosen := chosen || plain.ids;
            returning_ids := returning_ids || plain.returning_ids;
            left_out := left_out || CASE WHEN plain.leaves_out THEN ARRAY[plain.wanted ->> 'name'] END;
        END LOOP;
    END IF;
    FOREACH wanted IN ARRAY guarded LOOP
        SELECT g.* INTO guard FROM guarded_jobs(wanted, kinds, except_ids, suspects_left, is_alone) AS g;
        others := others || guard.ids;
        suspects_left := suspects_left - guard.suspects_taken;
        is_rated := is_rated OR guard.is_rated;
        of_queues := of_queues || guard.facts;
        FOR plain IN
            SELECT p.*
            FROM plain_jobs(
                worker_id, guard.rest, kinds, except_ids, cursor_queues, cursor_priorities, cursor_times, cursor_ids
            ) AS p
        LOOP
            chosen := chosen || plain.ids;
            returning_ids := returning_ids || plain.returning_ids;
            left_out := left_out || CASE WHEN plain.leaves_out THEN ARRAY[plain.wanted ->> 'name'] END;
        END LOOP;
    END LOOP;
    IF cardinality(others) > 0 THEN
        chosen := chosen || others;
        returning_ids := returning_ids || ARRAY(
            SELECT j.id
            FROM job AS j
            WHERE j.id = ANY (others)
                AND (j.unique_yielded OR enters_claim(j.unique_states, 'available', 'running'))
        );
    END IF;

    started_at := clock_timestamp();
    RETURN QUERY
    UPDATE job AS j
    SET state = 'running',
        -- The fence: no other run of the job has this number.
        run = j.run % 2147483647 + 1,
        -- Capped, so that no count stops a queue.
        attempt = least(j.attempt::integer + 1, 32767),
        attempted_at = started_at,
        worker = worker_id,
        -- Where a job in order begins, it stays first in its group until it is final.
        began = CASE WHEN j.in_order THEN coalesce(j.began, j.run % 2147483647 + 1) END,
        unique_states = CASE WHEN j.until_start AND j.unique_states > 0 THEN 0 ELSE j.unique_states END,
        unique_yielded = j.unique_yielded OR enters_claim(j.unique_states, 'available', 'running')
    WHERE j.id = ANY (chosen)
    -- What most jobs do not have is null, which is cheap to send.
    RETURNING
        NULL::jsonb, j.id, j.kind, j.queue, j.priority, j.attempt, j.max_attempts, j.created_at, j.scheduled_at, j.args,
        nullif(j.meta, '{}'), nullif(j.errors, '[]'), j.output, j.progress, j.unique_key, j.unique_states, j.unique_until,
        nullif(j.claims, false), nullif(j.until_start, false), j.replaced_by, j.run,
        nullif(j.crashes::smallint, 0::smallint), j.group_key, j.group_limit, j.in_order, j.updates, j.updated_at,
        j.updated_by, nullif(j.discard_on_reentry, false);

    IF is_rated THEN
        SELECT array_agg(j.queue::text) AS queues, array_agg(j.group_key::text) AS groups INTO spent
        FROM job AS j
        WHERE j.id = ANY (chosen);
        PERFORM spend_tokens(spent.queues, spent.groups, started_at);
    END IF;
    facts := jsonb_build_object(
        'began_at', statement_timestamp(),
        'started_at', started_at,
        'left_out', to_jsonb(left_out),
        'queues', of_queues,
        'discarded', CASE WHEN cardinality(returning_ids) > 0 THEN take_claims(returning_ids) END
    );
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION fetch_jobs(uuid, jsonb, text[], uuid[], integer, boolean, text[], smallint[], timestamptz[], uuid[]) IS
    'Starts the next jobs of these queues and kinds for a runner that is alive, and returns them. A column that has its default is null. The queues are an array of {"name", "free", "idle", "after_group", "visits", "freed"}, as in plain_jobs and guarded_jobs. The cursor has positions in queues, one for each priority, the highest first; the scan of such a queue begins behind them, the scan of another at its head. One row has no id but facts: when the jobs started, which queues left out jobs with a single attempt, what it learned of guarded queues, and which of the jobs were discarded, since another job holds their key.';

CREATE FUNCTION end_future_times() RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
-- A clock that was ahead and has gone back leaves leases, rates and holds that would last for the length of its jump. Each
-- knows when it was set, or how long it can be. Rows that another transaction has locked are left for the next time.
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    -- A statement below also sees what was set after at and committed before its snapshot. That is not from the future.
    future CONSTANT timestamptz := at + interval '1 s';
    changed bigint;
    total bigint := 0;
BEGIN
    UPDATE runner AS r
    SET leased_until = at + (r.leased_until - r.heartbeat_at), heartbeat_at = at
    WHERE r.id = ANY (ARRAY(
        SELECT f.id
        FROM runner AS f
        WHERE f.heartbeat_at > future AND isfinite(f.heartbeat_at) AND isfinite(f.leased_until)
        FOR NO KEY UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS changed = ROW_COUNT;
    total := total + changed;
    UPDATE queue AS q
    SET rate_full_at = CASE WHEN q.rate_full_at > future + f.longest THEN at + f.longest ELSE q.rate_full_at END,
        held_until = CASE WHEN q.held_at > future THEN at + (q.held_until - q.held_at) ELSE q.held_until END,
        held_at = CASE WHEN q.held_at > future THEN at ELSE q.held_at END
    FROM (
        SELECT f.name, rate_time(f.rate_burst, f.rate_count, f.rate_period) AS longest
        FROM queue AS f
        WHERE f.held_at > future OR f.rate_full_at > future + rate_time(f.rate_burst, f.rate_count, f.rate_period)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS f
    WHERE q.name = f.name;
    GET DIAGNOSTICS changed = ROW_COUNT;
    total := total + changed;
    WITH rated AS MATERIALIZED (
        -- Once a queue, not once a group.
        SELECT q.name, rate_time(q.group_rate_burst, q.group_rate_count, q.group_rate_period) AS longest
        FROM queue AS q
        WHERE q.group_rate_count IS NOT NULL
    )
    UPDATE queue_group AS g
    SET rate_full_at = CASE WHEN g.rate_full_at > future + f.longest THEN at + f.longest ELSE g.rate_full_at END,
        held_until = CASE WHEN g.held_at > future THEN at + (g.held_until - g.held_at) ELSE g.held_until END,
        held_at = CASE WHEN g.held_at > future THEN at ELSE g.held_at END
    FROM (
        SELECT g.queue, g.group_key, r.longest
        FROM queue_group AS g
        LEFT JOIN rated AS r ON r.name = g.queue
        WHERE g.held_at > future OR g.rate_full_at > future + r.longest
        FOR NO KEY UPDATE OF g SKIP LOCKED
    ) AS f
    WHERE g.queue = f.queue AND g.group_key = f.group_key;
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN total + changed;
END
$$;
COMMENT ON FUNCTION end_future_times() IS
    'After the server''s clock went back: ends each lease of a runner, each rate and each hold no later than its own length from now. What was set less than a second ahead stays, and so do times that an operator wrote. Returns how many rows were changed. The rescuer calls it.';
