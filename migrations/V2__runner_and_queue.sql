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
    service text NOT NULL,
    holder uuid,
    runner text,
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
    FROM (SELECT s.queue, count(*)::integer AS jobs FROM unnest(queue_names) AS s (queue) GROUP BY s.queue) AS n
    WHERE q.name = n.queue AND q.rate_count IS NOT NULL;
    INSERT INTO queue_group AS g (queue, group_key, rate_full_at)
    SELECT q.name, n.group_key, spend_tokens.at + rate_time(n.jobs, q.group_rate_count, q.group_rate_period)
    FROM (
        SELECT s.queue, s.group_key, count(*)::integer AS jobs
        FROM unnest(queue_names, group_keys) AS s (queue, group_key)
        WHERE s.group_key IS NOT NULL
        GROUP BY s.queue, s.group_key
    ) AS n
    JOIN queue AS q ON q.name = n.queue AND q.group_rate_count IS NOT NULL
    -- The order in which hold_back locks them.
    ORDER BY n.queue COLLATE "C", n.group_key COLLATE "C"
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
#variable_conflict use_column
-- States of a group in one fetch: not visited; startable, whose first jobs are chosen; blocked, from its first job on that
-- may not start. Nothing starts behind a job that blocks.
--
-- Invariants: the queue's row is locked before anything is counted, and each statement here sees what was committed
-- before it begins, so no other fetch starts a job of the queue meanwhile. What ends meanwhile only makes more room. A
-- job is chosen without a lock, then locked without waiting; where that fails its group gives nothing from there on.
--
-- A visit of a group reads one entry of job_group, however many jobs wait in the group, and the group's entries of
-- job_group_held; in a queue whose groups have a rate, or of which one is held, also the group's row of queue_group.
DECLARE
    settings queue;
    level smallint;
    above smallint[] := '{}';
    visited record;
    more record;
    job_limit integer;
    taken integer;
    all_visits integer := 0;
    -- Where a level ran out of visits: in which part of the ring, and at which group.
    ran_out_part integer;
    ran_out_at text COLLATE "C";
    place integer := 0;
    missing integer;
    -- From this one on the chosen jobs are of this level. First come the heads of groups; of these: how many jobs of the
    -- group run or are chosen, whether it is blocked, and how many may run after this fetch by its tokens (null: any number).
    level_first integer;
    level_counts integer[];
    level_blocked boolean[];
    level_most integer[];
    -- Whether a group can be without a token, or held; and how many tokens the visited one has.
    are_rated boolean;
    tokens integer;
    -- Where the jobs without a group have their turn at each level.
    turn_levels smallint[] := '{}';
    turn_places integer[] := '{}';
    -- The chosen jobs.
    chosen_ids uuid[] := '{}';
    chosen_groups text[] := '{}';
    chosen_priorities smallint[] := '{}';
    chosen_times timestamptz[] := '{}';
    chosen_rounds integer[] := '{}';
    chosen_places integer[] := '{}';
    chosen_suspects boolean[] := '{}';
    locked uuid[];
    spot integer;
BEGIN
    ids := '{}';
    reached := after_group;
    has_startable := false;
    suspects_taken := 0;
    suspects_seen := 0;
    settings := lock_queue(queue_name);
    IF settings.name IS NULL OR settings.paused_at IS NOT NULL OR settings.held_until > clock_timestamp() THEN
        reached := NULL;
        RETURN;
    END IF;
    is_rated := settings.group_rate_count IS NOT NULL;
    are_rated := is_rated OR EXISTS (SELECT FROM queue_group AS g WHERE g.queue = queue_name);

    LOOP
        -- The next level of priority.
        SELECT j.priority INTO level
        FROM job AS j
        WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available'
            AND j.priority < coalesce(above[cardinality(above)]::integer, 32768)
        ORDER BY j.priority DESC
        LIMIT 1;
        EXIT WHEN NOT FOUND;
        level_first := cardinality(chosen_ids) + 1;
        level_counts := '{}';
        level_blocked := '{}';
        level_most := '{}';
        FOR visited IN
            WITH RECURSIVE onward AS (
                (
                    SELECT j.group_key, j.id, j.kind, j.crashes, j.group_limit, j.in_order, j.scheduled_at
                    FROM job AS j
                    WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available'
                        AND j.priority = level AND j.group_key > after_group COLLATE "C" AND j.id <> ALL (except_ids)
                    ORDER BY j.group_key, j.scheduled_at, j.id
                    LIMIT 1
                )
                UNION ALL
                SELECT n.*
                FROM onward AS o
                CROSS JOIN LATERAL (
                    SELECT j.group_key, j.id, j.kind, j.crashes, j.group_limit, j.in_order, j.scheduled_at
                    FROM job AS j
                    WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available'
                        AND j.priority = level AND j.group_key > o.group_key AND j.id <> ALL (except_ids)
                    ORDER BY j.group_key, j.scheduled_at, j.id
                    LIMIT 1
                ) AS n
            ),
            from_start AS (
                (
                    SELECT j.group_key, j.id, j.kind, j.crashes, j.group_limit, j.in_order, j.scheduled_at
                    FROM job AS j
                    WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available'
                        AND j.priority = level AND j.group_key <= after_group COLLATE "C" AND j.id <> ALL (except_ids)
                    ORDER BY j.group_key, j.scheduled_at, j.id
                    LIMIT 1
                )
                UNION ALL
                SELECT n.*
                FROM from_start AS o
                CROSS JOIN LATERAL (
                    SELECT j.group_key, j.id, j.kind, j.crashes, j.group_limit, j.in_order, j.scheduled_at
                    FROM job AS j
                    WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available'
                        AND j.priority = level AND j.group_key > o.group_key AND j.group_key <= after_group COLLATE "C"
                        AND j.id <> ALL (except_ids)
                    ORDER BY j.group_key, j.scheduled_at, j.id
                    LIMIT 1
                ) AS n
            ),
            ring AS (
                SELECT o.*, 1 AS part FROM onward AS o
                UNION ALL
                SELECT s.*, 2 AS part FROM from_start AS s
                LIMIT visits
            )
            SELECT v.*, h.running, h.has_begun, t.rate_full_at, t.held_until
            FROM (
                SELECT r.*, NULL::bigint AS visits FROM ring AS r
                UNION ALL
                -- After them: how many they were, and the last one.
                (
                    SELECT r.*, (SELECT count(*) FROM ring) AS visits
                    FROM ring AS r
                    ORDER BY r.part DESC, r.group_key DESC
                    LIMIT 1
                )
                UNION ALL
                SELECT n.*, 3 AS part, NULL::bigint AS visits
                FROM unnest(freed_groups) AS g (name)
                CROSS JOIN LATERAL (
                    SELECT j.group_key, j.id, j.kind, j.crashes, j.group_limit, j.in_order, j.scheduled_at
                    FROM job AS j
                    WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available'
                        AND j.priority = level AND j.group_key = g.name COLLATE "C" AND j.id <> ALL (except_ids)
                    ORDER BY j.scheduled_at, j.id
                    LIMIT 1
                ) AS n
                WHERE g.name COLLATE "C" NOT IN (SELECT r.group_key FROM ring AS r)
            ) AS v
            LEFT JOIN LATERAL (
                SELECT g.rate_full_at, g.held_until
                FROM queue_group AS g
                WHERE are_rated AND g.queue = queue_name AND g.group_key = v.group_key
                -- So that each is looked up, and not compared with all groups of the queue.
                LIMIT 1
            ) AS t ON true
            CROSS JOIN LATERAL (
                SELECT
                    count(*) FILTER (WHERE k.state = 'running') AS running,
                    bool_or(k.state <> 'running') AS has_begun,
                    bool_or(k.state = 'available') AS is_available
                FROM job AS k
                WHERE k.queue = queue_name AND k.group_key = v.group_key AND k.group_key IS NOT NULL
                    AND k.finalized_at IS NULL AND (k.state = 'running' OR k.began IS NOT NULL)
            ) AS h
            -- Most of many groups are blocked, and go no further: their limit is reached, there is no worker for the kind of
            -- the first job, or the job that began waits for its retry.
            WHERE are_rated OR v.visits IS NOT NULL OR CASE
                WHEN h.has_begun THEN h.is_available
                ELSE v.kind = ANY (kinds) AND (h.running < least(
                    CASE WHEN v.in_order THEN 1 END, v.group_limit, settings.max_per_group
                )) IS NOT FALSE
            END
        LOOP
            IF visited.visits IS NOT NULL THEN
                all_visits := all_visits + visited.visits;
                -- The next fetch goes on where this level ran out of visits; of several levels, at the one that came least far.
                IF visited.visits >= visits AND (
                    ran_out_part IS NULL OR (visited.part, visited.group_key) < (ran_out_part, ran_out_at)
                ) THEN
                    ran_out_part := visited.part;
                    ran_out_at := visited.group_key;
                END IF;
                CONTINUE;
            END IF;
            place := place + 1;
            IF visited.part > 1 AND turn_levels[cardinality(turn_levels)] IS DISTINCT FROM level THEN
                turn_levels := turn_levels || level;
                turn_places := turn_places || place;
                place := place + 1;
            END IF;
            IF are_rated THEN
                tokens := group_tokens(settings, visited.rate_full_at, visited.held_until, clock_timestamp());
                IF tokens = 0 THEN
                    next_at := least(next_at, group_due_at(settings, visited.rate_full_at, visited.held_until));
                    CONTINUE;
                END IF;
            END IF;
            IF visited.has_begun THEN
                -- The job that began is first, wherever its priority would place it.
                SELECT j.group_key, j.id, j.kind, j.crashes, j.group_limit, j.in_order, j.scheduled_at, visited.part,
                    visited.running, visited.has_begun
                INTO visited
                FROM job AS j
                WHERE j.queue = queue_name AND j.group_key = visited.group_key AND j.group_key IS NOT NULL
                    AND j.finalized_at IS NULL AND j.began IS NOT NULL AND j.state = 'available'
                    AND j.id <> ALL (except_ids)
                ORDER BY j.id
                LIMIT 1;
                CONTINUE WHEN NOT FOUND;
            END IF;
            taken := 0;
            IF cardinality(above) > 0 THEN
                -- What waits above this level was visited there, and blocks unless it was chosen.
                CONTINUE WHEN visited.id = ANY (chosen_ids) OR EXISTS (
                    SELECT FROM unnest(above) AS a (priority)
                    CROSS JOIN LATERAL (
                        SELECT j.id
                        FROM job AS j
                        WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available'
                            AND j.priority = a.priority AND j.group_key = visited.group_key
                            AND j.id <> ALL (chosen_ids || except_ids)
                        ORDER BY j.scheduled_at, j.id
                        LIMIT 1
                    ) AS w
                    WHERE visited.has_begun IS NOT TRUE
                );
                taken := cardinality(array_positions(chosen_groups, visited.group_key::text));
            END IF;
            job_limit := least(
                CASE WHEN visited.in_order THEN 1 END, visited.group_limit, settings.max_per_group, visited.running + tokens
            );
            CONTINUE WHEN visited.running + taken >= job_limit OR visited.kind <> ALL (kinds);
            IF visited.crashes > 0 THEN
                suspects_seen := suspects_seen + (visited.crashes = 1)::integer;
                alone_crashes := least(alone_crashes, CASE WHEN visited.crashes > 1 THEN visited.crashes END);
                CONTINUE WHEN (visited.crashes > 1) <> is_alone OR suspects_taken >= suspects;
                suspects_taken := suspects_taken + 1;
            END IF;
            CONTINUE WHEN is_alone AND visited.crashes < 2;
            chosen_ids := chosen_ids || visited.id;
            chosen_groups := chosen_groups || visited.group_key::text;
            chosen_priorities := chosen_priorities || level;
            chosen_times := chosen_times || visited.scheduled_at;
            chosen_rounds := chosen_rounds || 1;
            chosen_places := chosen_places || place;
            chosen_suspects := chosen_suspects || (visited.crashes > 0);
            level_counts := level_counts || visited.running::integer + taken + 1;
            level_blocked := level_blocked || (visited.has_begun IS TRUE);
            level_most := level_most || visited.running::integer + tokens;
            EXIT WHEN cardinality(chosen_ids) >= wanted;
        END LOOP;
        IF turn_levels[cardinality(turn_levels)] IS DISTINCT FROM level THEN
            place := place + 1;
            turn_levels := turn_levels || level;
            turn_places := turn_places || place;
        END IF;

        missing := wanted - cardinality(chosen_ids);
        IF missing > 0 AND cardinality(level_counts) > 0 AND NOT is_alone THEN
            -- The second jobs of all groups, then the third ones, and so on.
            FOR more IN
                SELECT g.spot::integer AS spot, g.name, g.place, n.*
                FROM unnest(
                    chosen_groups[level_first:], chosen_ids[level_first:], chosen_times[level_first:],
                    chosen_places[level_first:], level_blocked
                ) WITH ORDINALITY AS g (name, head, head_at, place, is_blocked, spot)
                CROSS JOIN LATERAL (
                    SELECT w.*, row_number() OVER (ORDER BY w.scheduled_at, w.id) + 1 AS round
                    FROM (
                        SELECT j.id, j.kind, j.crashes, j.group_limit, j.in_order, j.scheduled_at
                        FROM job AS j
                        WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available'
                            AND j.priority = level AND j.group_key = g.name COLLATE "C"
                            AND (j.scheduled_at, j.id) > (g.head_at, g.head) AND j.id <> ALL (except_ids)
                        ORDER BY j.scheduled_at, j.id
                        LIMIT 2 * missing / cardinality(level_counts) + 1
                    ) AS w
                ) AS n
                WHERE NOT g.is_blocked
                ORDER BY n.round, g.spot
            LOOP
                spot := more.spot;
                CONTINUE WHEN level_blocked[spot];
                job_limit := least(
                    CASE WHEN more.in_order THEN 1 END, more.group_limit, settings.max_per_group, level_most[spot]
                );
                IF level_counts[spot] >= job_limit OR more.kind <> ALL (kinds) OR more.crashes > 1
                    OR (more.crashes = 1 AND suspects_taken >= suspects)
                THEN
                    level_blocked[spot] := true;
                    CONTINUE;
                END IF;
                suspects_taken := suspects_taken + (more.crashes > 0)::integer;
                suspects_seen := suspects_seen + (more.crashes > 0)::integer;
                chosen_ids := chosen_ids || more.id;
                chosen_groups := chosen_groups || more.name;
                chosen_priorities := chosen_priorities || level;
                chosen_times := chosen_times || more.scheduled_at;
                chosen_rounds := chosen_rounds || more.round::integer;
                chosen_places := chosen_places || more.place;
                chosen_suspects := chosen_suspects || (more.crashes > 0);
                level_counts[spot] := level_counts[spot] + 1;
                EXIT WHEN cardinality(chosen_ids) >= wanted;
            END LOOP;
        END IF;
        -- So that a fetch ends: the levels below have their turn when these have fewer jobs.
        EXIT WHEN cardinality(chosen_ids) >= wanted OR cardinality(above) >= 1000 OR all_visits >= 10 * greatest(visits, 1000);
        above := above || level;
    END LOOP;
    has_startable := cardinality(chosen_ids) > 0;
    IF NOT has_startable THEN
        reached := coalesce(ran_out_at, after_group);
        RETURN;
    END IF;

    -- The jobs without a group compete for the same places.
    WITH candidate AS (
        SELECT c.id, c.group_name, c.priority, c.scheduled_at, c.round, c.place
        FROM unnest(chosen_ids, chosen_groups, chosen_priorities, chosen_times, chosen_rounds, chosen_places)
            AS c (id, group_name, priority, scheduled_at, round, place)
        UNION ALL
        SELECT
            u.id, NULL, u.priority, u.scheduled_at,
            row_number() OVER (PARTITION BY u.priority ORDER BY u.scheduled_at, u.id)::integer,
            coalesce((SELECT t.place FROM unnest(turn_levels, turn_places) AS t (priority, place) WHERE t.priority = u.priority), 0)
        FROM (
            SELECT j.id, j.priority, j.scheduled_at
            FROM job AS j
            WHERE j.queue = queue_name AND j.group_key IS NULL AND j.state = 'available'
                AND j.crashes = 0 AND j.kind = ANY (kinds) AND j.id <> ALL (except_ids) AND NOT is_alone
            ORDER BY j.priority DESC, j.scheduled_at, j.id
            LIMIT wanted
            -- A job that another transaction has locked takes no place from a group.
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS u
    ),
    kept AS (
        SELECT c.*
        FROM candidate AS c
        ORDER BY
            c.priority DESC,
            CASE WHEN settings.fair THEN c.round END,
            CASE WHEN settings.fair THEN c.place END,
            c.scheduled_at, c.id
        LIMIT wanted
    )
    SELECT
        coalesce(array_agg(k.id) FILTER (WHERE k.group_name IS NOT NULL), '{}'),
        -- The next fetch begins behind the last turn, unless a level ran out of visits or only freed groups were visited.
        CASE
            WHEN visits <= 0 THEN after_group
            WHEN ran_out_at IS NOT NULL THEN ran_out_at
            ELSE coalesce(
                (array_agg(coalesce(k.group_name, '') ORDER BY k.priority, k.round DESC, k.place DESC)
                    FILTER (WHERE settings.fair OR k.group_name IS NOT NULL))[1],
                after_group
            )
        END
    INTO ids, reached
    FROM kept AS k;

    locked := ARRAY(SELECT j.id FROM job AS j WHERE j.id = ANY (ids) AND j.state = 'available' FOR NO KEY UPDATE SKIP LOCKED);
    IF cardinality(locked) < cardinality(ids) THEN
        ids := ARRAY(
            SELECT k.id
            FROM unnest(locked) AS k (id)
            WHERE NOT EXISTS (
                SELECT FROM unnest(ids) AS m (id)
                WHERE m.id <> ALL (locked)
                    AND chosen_groups[array_position(chosen_ids, m.id)] = chosen_groups[array_position(chosen_ids, k.id)]
                    AND array_position(chosen_ids, m.id) < array_position(chosen_ids, k.id)
            )
        );
        suspects_taken := (
            SELECT count(*) FROM unnest(ids) AS k (id) WHERE chosen_suspects[array_position(chosen_ids, k.id)]
        );
    END IF;
END
$$;
COMMENT ON FUNCTION jobs_of_groups(text, text[], integer, integer, boolean, uuid[], integer, text, text[]) IS
    'The jobs of groups of a queue that a fetch may start now, of these kinds, at most wanted; locks them and the queue''s row until the transaction ends. Suspects and is_alone: as in a fetch. Groups take turns within a priority, from the first key after after_group on; visits says how many of them to visit at each priority, and freed_groups which ones in any case. reached: where the next fetch goes on; after_group, where none could start: all were visited; null: nothing was visited, since the queue is paused or held, or its row is locked. has_startable: whether any could start. alone_crashes: the fewest crashes of a job that could start if it ran alone. is_rated: whether the jobs that start spend tokens of their groups. next_at: when the first group that has no token, or is held, may start a job.';

CREATE FUNCTION jobs_of_queues(
    queue_names text[],
    kinds text[],
    wanted integer[],
    suspects integer,
    is_alone boolean,
    except_ids uuid[],
    visits integer[],
    after_groups text[],
    freed_queues text[],
    freed_groups text[]
) RETURNS TABLE (
    queue text, ids uuid[], reached text, has_startable boolean, suspects_seen integer, alone_crashes smallint,
    is_rated boolean, next_at timestamptz, took double precision
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    suspects_left integer := suspects;
    taken record;
    began_at timestamptz;
BEGIN
    FOR place IN 1..cardinality(queue_names) LOOP
        began_at := clock_timestamp();
        SELECT g.* INTO taken
        FROM jobs_of_groups(
            queue_names[place], kinds, wanted[place], suspects_left, is_alone, except_ids, visits[place],
            after_groups[place],
            ARRAY(
                SELECT f.name FROM unnest(freed_queues, freed_groups) AS f (queue, name) WHERE f.queue = queue_names[place]
            )
        ) AS g;
        CONTINUE WHEN taken.reached IS NULL;
        suspects_left := suspects_left - taken.suspects_taken;
        queue := queue_names[place];
        ids := taken.ids;
        reached := taken.reached;
        has_startable := taken.has_startable;
        suspects_seen := taken.suspects_seen;
        alone_crashes := taken.alone_crashes;
        is_rated := taken.is_rated;
        next_at := taken.next_at;
        took := extract(epoch FROM clock_timestamp() - began_at);
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION jobs_of_queues(text[], text[], integer[], integer, boolean, uuid[], integer[], text[], text[], text[]) IS
    'jobs_of_groups for each of these queues, which come in one order, so that two fetches never wait for each other. took: the seconds of a queue''s visit.';

CREATE FUNCTION end_future_times() RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
-- A clock that was ahead and has gone back leaves leases, rates and holds that would last for the length of its jump. Each
-- knows when it was set, or how long it can be. Rows that another transaction has locked are left for the next time.
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    changed bigint;
    total bigint := 0;
BEGIN
    UPDATE runner AS r
    SET leased_until = at + (r.leased_until - r.heartbeat_at), heartbeat_at = at
    WHERE r.id = ANY (ARRAY(
        SELECT f.id
        FROM runner AS f
        WHERE f.heartbeat_at > at AND isfinite(f.heartbeat_at) AND isfinite(f.leased_until)
        FOR NO KEY UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS changed = ROW_COUNT;
    total := total + changed;
    UPDATE queue AS q
    SET rate_full_at = CASE WHEN q.rate_full_at > f.latest THEN f.latest ELSE q.rate_full_at END,
        held_until = CASE WHEN q.held_at > at THEN at + (q.held_until - q.held_at) ELSE q.held_until END,
        held_at = CASE WHEN q.held_at > at THEN at ELSE q.held_at END
    FROM (
        SELECT f.name, at + rate_time(f.rate_burst, f.rate_count, f.rate_period) AS latest
        FROM queue AS f
        WHERE f.held_at > at OR f.rate_full_at > at + rate_time(f.rate_burst, f.rate_count, f.rate_period)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS f
    WHERE q.name = f.name;
    GET DIAGNOSTICS changed = ROW_COUNT;
    total := total + changed;
    WITH rated AS MATERIALIZED (
        -- Once a queue, not once a group.
        SELECT q.name, at + rate_time(q.group_rate_burst, q.group_rate_count, q.group_rate_period) AS latest
        FROM queue AS q
        WHERE q.group_rate_count IS NOT NULL
    )
    UPDATE queue_group AS g
    SET rate_full_at = CASE WHEN g.rate_full_at > f.latest THEN f.latest ELSE g.rate_full_at END,
        held_until = CASE WHEN g.held_at > at THEN at + (g.held_until - g.held_at) ELSE g.held_until END,
        held_at = CASE WHEN g.held_at > at THEN at ELSE g.held_at END
    FROM (
        SELECT g.queue, g.group_key, r.latest
        FROM queue_group AS g
        LEFT JOIN rated AS r ON r.name = g.queue
        WHERE g.held_at > at OR g.rate_full_at > r.latest
        FOR NO KEY UPDATE OF g SKIP LOCKED
    ) AS f
    WHERE g.queue = f.queue AND g.group_key = f.group_key;
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN total + changed;
END
$$;
COMMENT ON FUNCTION end_future_times() IS
    'After the server''s clock went back: ends each lease of a runner, each rate and each hold no later than its own length from now. Times that an operator wrote stay. Returns how many rows were changed. The rescuer calls it.';
