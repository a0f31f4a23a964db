-- Queues, groups, runners and leases of maintenance: what is set, and how a runner is woken.

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

CREATE FUNCTION _may_notify() RETURNS boolean
    LANGUAGE sql VOLATILE
    RETURN pg_notification_queue_usage() < 0.9;
COMMENT ON FUNCTION _may_notify() IS
    'Whether the server''s queue of notifications has room. When it is full, every transaction that notifies fails as it commits, so nobody is notified before that: runners look by themselves.';

CREATE FUNCTION _wake_runners(queues text[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
-- NOTIFY takes a database-wide lock at commit, so nothing is sent unless a runner sleeps. The runners
-- come first, not the queues: a plan whose cost followed the length of the array would be made anew
-- for each call, which takes longer than all the rest.
DECLARE
    woken integer;
BEGIN
    IF _wake_runners.queues IS NULL THEN
        RETURN 0;
    END IF;
    SELECT count(pg_notify(current_schema() || '.job', q.name))
    INTO woken
    FROM (
        SELECT DISTINCT w.name
        FROM runner AS r
        CROSS JOIN LATERAL unnest(r.queues) AS w (name)
        WHERE r.idle AND r.leased_until > clock_timestamp() AND w.name = ANY (_wake_runners.queues)
    ) AS q
    -- Asked of each that would be sent, so that an insert that wakes nobody does not ask.
    WHERE _may_notify();
    RETURN woken;
END
$$;
COMMENT ON FUNCTION _wake_runners(text[]) IS
    'Notifies channel <schema>.job, with the queue as payload, for each queue that an idle runner wants. Returns how many notifications it sent.';

CREATE FUNCTION _tell_runners(workers uuid[]) RETURNS integer
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
    WHERE r.id = ANY (workers) AND r.leased_until > clock_timestamp() AND _may_notify();
    RETURN told;
END
$$;
COMMENT ON FUNCTION _tell_runners(uuid[]) IS
    'Notifies channel <schema>.control, with the runner''s id as payload, for each of these runners that is alive, where the server''s queue of notifications has room: it then asks which of its running jobs were taken away. Returns how many notifications it sent.';
