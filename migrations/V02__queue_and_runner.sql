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
    registered jsonb NOT NULL DEFAULT '{}',
    knows_groups boolean NOT NULL,
    remote boolean NOT NULL DEFAULT false,
    memory jsonb NOT NULL DEFAULT '{}',
    version text COLLATE "C",
    host text COLLATE "C",
    CONSTRAINT runner_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50);
COMMENT ON TABLE runner IS 'One row per live runner or remote worker. The jobs of a runner whose lease ran out are rescued.';
COMMENT ON COLUMN runner.id IS 'The id of the runner, as in job.worker.';
COMMENT ON COLUMN runner.started_at IS 'When the runner started.';
COMMENT ON COLUMN runner.heartbeat_at IS 'When the lease was last taken or extended, four times within its length, leased_until - heartbeat_at.';
COMMENT ON COLUMN runner.leased_until IS 'The end of the lease, by the database''s clock. Each heartbeat extends it. After this time the runner is dead.';
COMMENT ON COLUMN runner.counted_at IS 'When the runner last reported the counts in this row. Null: it has reported none.';
COMMENT ON COLUMN runner.completed IS 'How many jobs the runner completed from started_at to counted_at.';
COMMENT ON COLUMN runner.failed IS 'How many attempts of the runner failed or were discarded from started_at to counted_at.';
COMMENT ON COLUMN runner.lately_completed IS 'How many jobs the runner completed in the time of the column lately.';
COMMENT ON COLUMN runner.lately_failed IS 'How many attempts of the runner failed in the time of the column lately.';
COMMENT ON COLUMN runner.lately IS 'The time from the report before, or from the start, to counted_at. lately_completed and lately_failed count in it.';
COMMENT ON COLUMN runner.keep_completed IS 'How long the runner keeps completed jobs of queues that set no retention. A thousand years means for ever. Null: the runner did not say.';
COMMENT ON COLUMN runner.keep_cancelled IS 'How long the runner keeps cancelled jobs of queues that set no retention.';
COMMENT ON COLUMN runner.keep_discarded IS 'How long the runner keeps discarded jobs of queues that set no retention.';
COMMENT ON COLUMN runner.idle IS 'Whether the runner waits for notifications. An insert notifies only if an idle runner works its queue, because NOTIFY makes commits wait for each other.';
COMMENT ON COLUMN runner.name IS 'A name for people. Default: uniqueue and the process id.';
COMMENT ON COLUMN runner.queues IS 'The queues that the runner works.';
COMMENT ON COLUMN runner.slots IS 'For each queue of queues, how many of its jobs the runner could run at the same time when it started. Null: the runner did not say.';
COMMENT ON COLUMN runner.kinds IS 'The kinds that the runner has a worker for. It does not fetch other kinds. Null: the runner did not say.';
COMMENT ON COLUMN runner.periodic IS 'The periodic jobs that the runner''s code defines, each with a digest of its definition. Two live runners with different digests overwrite each other''s definition.';
COMMENT ON COLUMN runner.registered IS 'The kinds that the runner registered when it started, each with its kind.digest. Two live runners with different digests overwrite each other''s registration.';
COMMENT ON COLUMN runner.knows_groups IS 'Whether the runner enforces limits of groups. The column has no default, so a runner of a version without groups cannot enter.';
COMMENT ON COLUMN runner.remote IS 'Whether the row is that of a remote worker, which calls fetch_jobs, and not that of a runner of the library.';
COMMENT ON COLUMN runner.memory IS 'What fetches of a remote worker remember. A runner keeps the same in its process. drains_until: the worker starts nothing, so that a suspect can run alone. alone_at: when one began to. rests_until: none does before. taken: suspects so far. aside: the jobs to leave out, until when, and how they failed. is_careful: whether a fetch needs any of this. after: for each queue, the group to go on after.';
COMMENT ON COLUMN runner.version IS 'The version of the application, as Runner::version gave it. Null: the runner did not say.';
COMMENT ON COLUMN runner.host IS 'The name of the machine that the runner runs on. Null: the runner did not say.';

CREATE TABLE queue (
    name short_name NOT NULL,
    paused_at timestamptz,
    paused_by text COLLATE "C",
    pause_reason text COLLATE "C",
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
    CONSTRAINT queue_pause_length CHECK (octet_length(paused_by) <= 200 AND octet_length(pause_reason) <= 1000),
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
COMMENT ON TABLE queue IS 'Settings of queues, one row per queue. A queue without a row has the default settings.';
COMMENT ON COLUMN queue.name IS 'The queue''s name, as in job.queue.';
COMMENT ON COLUMN queue.paused_at IS 'When the queue was paused. Runners fetch nothing from a paused queue. Null: it is not paused.';
COMMENT ON COLUMN queue.paused_by IS 'The name of the actor that paused the queue, as the caller gave it. Null: the caller gave none, or the queue is not paused.';
COMMENT ON COLUMN queue.pause_reason IS 'Why the queue was paused, as the caller said. Null: the caller gave no reason, or the queue is not paused.';
COMMENT ON COLUMN queue.max_running IS 'How many jobs of the queue may run at the same time, over all runners. Null: no limit.';
COMMENT ON COLUMN queue.max_per_group IS 'How many jobs of each group may run at the same time, over all runners. Null: the jobs'' own limits.';
COMMENT ON COLUMN queue.max_waiting IS 'How many available jobs an insert may leave in the queue, else error UQ003. Null: no limit.';
COMMENT ON COLUMN queue.fair IS 'Whether the jobs without a group take turns with the groups, as one more group, within a priority.';
COMMENT ON COLUMN queue.keep_completed IS 'How long completed jobs of the queue are kept. 0: they are deleted when they complete. Null: the runners'' retention applies, by default a day.';
COMMENT ON COLUMN queue.keep_cancelled IS 'How long cancelled jobs of the queue are kept. Null: the runners'' retention applies, by default a day.';
COMMENT ON COLUMN queue.keep_discarded IS 'How long discarded jobs of the queue are kept. Null: the runners'' retention applies, by default a week.';
COMMENT ON COLUMN queue.rate_count IS 'How many jobs may start in each rate_period, over all runners, once the burst is spent. Null: no rate.';
COMMENT ON COLUMN queue.rate_period IS 'The period of rate_count. A month counts as 30 days.';
COMMENT ON COLUMN queue.rate_burst IS 'How many jobs may start at once after a time without starts.';
COMMENT ON COLUMN queue.rate_full_at IS 'When the whole burst is available again: each start adds rate_period / rate_count. Null or past: the whole burst is available.';
COMMENT ON COLUMN queue.group_rate_count IS 'As rate_count, for each group of the queue.';
COMMENT ON COLUMN queue.group_rate_period IS 'The period of group_rate_count.';
COMMENT ON COLUMN queue.group_rate_burst IS 'How many jobs of a group may start at once after a time without starts.';
COMMENT ON COLUMN queue.held_at IS 'When hold_queue set held_until. The length of the hold is held_until - held_at.';
COMMENT ON COLUMN queue.held_until IS 'The end of a hold by a worker or an operator. Runners fetch nothing from the queue before it. Null or past: the queue is not held.';
COMMENT ON CONSTRAINT queue_pause_length ON queue IS 'An actor has at most 200 bytes, a reason at most 1,000.';
COMMENT ON CONSTRAINT queue_max_running_range ON queue IS 'A limit is at least 1. To run nothing, pause the queue.';
COMMENT ON CONSTRAINT queue_max_per_group_range ON queue IS 'A limit is at least 1. To run nothing, pause the queue.';
COMMENT ON CONSTRAINT queue_max_waiting_range ON queue IS 'A limit is at least 1.';
COMMENT ON CONSTRAINT queue_keep_not_negative ON queue IS 'A retention is not negative. To keep jobs for ever, set a long time, such as 1000 years.';
COMMENT ON CONSTRAINT queue_rate_range ON queue IS 'A rate has a count and a burst of 1 to 1,000,000 and a period of 1 ms to 31 days. To run nothing, pause the queue.';
COMMENT ON CONSTRAINT queue_group_rate_range ON queue IS 'The rate of groups has a count and a burst of 1 to 1,000,000 and a period of 1 ms to 31 days.';
COMMENT ON CONSTRAINT queue_times_finite ON queue IS 'The times of a rate and a hold are finite, because a fetch returns when the next job may start. To hold a queue without an end, pause it.';

CREATE TABLE queue_group (
    queue short_name NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    rate_full_at timestamptz,
    held_at timestamptz,
    held_until timestamptz,
    CONSTRAINT queue_group_pkey PRIMARY KEY (queue, group_key),
    CONSTRAINT queue_group_times_finite CHECK (isfinite(rate_full_at) AND isfinite(held_at) AND isfinite(held_until))
) WITH (fillfactor = 50);
COMMENT ON TABLE queue_group IS 'One row per group that is held, or that has started jobs under a group rate. The pruner deletes rows whose times have passed.';
COMMENT ON COLUMN queue_group.rate_full_at IS 'As queue.rate_full_at, for this group under queue.group_rate_count.';
COMMENT ON COLUMN queue_group.held_until IS 'The end of a hold. Runners fetch no job of the group before it. Null or past: the group is not held.';
COMMENT ON COLUMN queue_group.held_at IS 'When hold_group set held_until. The length of the hold is held_until - held_at.';
COMMENT ON COLUMN queue_group.queue IS 'The queue of the group.';
COMMENT ON COLUMN queue_group.group_key IS 'The key of the group, as in job.group_key.';
COMMENT ON CONSTRAINT queue_group_times_finite ON queue_group IS 'The times of a rate and a hold are finite, because a fetch returns when the next job may start.';

CREATE TABLE maintenance (
    service text COLLATE "C" NOT NULL,
    holder uuid,
    runner text COLLATE "C",
    taken_at timestamptz,
    leased_until timestamptz NOT NULL,
    ran_at timestamptz,
    state jsonb,
    sleeps boolean NOT NULL DEFAULT false,
    CONSTRAINT maintenance_pkey PRIMARY KEY (service)
) WITH (fillfactor = 50);
COMMENT ON TABLE maintenance IS 'One row per maintenance service: promoter, expirer, rescuer, pruner, releaser, periodic, reindexer. The first runner that offers a service, or the first call of maintain(), enters its row. The holder of the lease does the work, and the other runners send no queries for it. Two holders at the same time do no harm.';
COMMENT ON COLUMN maintenance.service IS 'The name of the service.';
COMMENT ON COLUMN maintenance.holder IS 'The id of the process that holds the lease, made when the process starts. It stays when the runner takes a new runner.id. Null: no process holds the lease.';
COMMENT ON COLUMN maintenance.runner IS 'The name of the runner or of the caller of maintain() that holds the lease, as in runner.name.';
COMMENT ON COLUMN maintenance.taken_at IS 'When the lease was last taken or extended. If it lies in the future, the server''s clock has gone back, and the lease is free.';
COMMENT ON COLUMN maintenance.leased_until IS 'The end of the lease, by the database''s clock. A time far in the future without a holder switches the service off for all runners.';
COMMENT ON COLUMN maintenance.ran_at IS 'When the reindexer, which runs once a day, last began. Of the pruner, when maintain() last ended a round.';
COMMENT ON COLUMN maintenance.state IS 'What the next call of maintain() needs to go on with the service, such as the batch size and the jobs that the database refuses to change. A runner keeps it in memory. Null: nothing.';
COMMENT ON COLUMN maintenance.sleeps IS 'Whether the holder waits for a notification. Only the releaser waits so: the end of a job with children notifies it while it sleeps.';

CREATE FUNCTION _may_notify() RETURNS boolean
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RETURN coalesce(nullif(current_setting('uniqueue.notify', true), '')::boolean, true)
        AND coalesce((SELECT p.notifies FROM place AS p), true)
        AND pg_notification_queue_usage() < 0.9;
END
$$;
COMMENT ON FUNCTION _may_notify IS 'Whether a notification may be sent: the setting uniqueue.notify of the session is not off, place.notifies is not false, and the server''s notification queue has room. When that queue is full, a transaction that notifies fails at its commit. So no notification is sent when nine tenths are used. Runners poll then.';

CREATE FUNCTION _wake_runners(queues text[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE
AS $$
-- NOTIFY takes a database-wide lock at commit, so nothing is sent unless a runner sleeps. The runners
-- come first, not the queues: a plan whose cost followed the length of the array would be made anew
-- for each call, which takes longer than all the rest.
BEGIN
    IF _wake_runners.queues IS NULL THEN
        RETURN 0;
    END IF;
    RETURN (
        SELECT count(pg_notify(current_schema() || '.job', q.name))
        FROM (
            SELECT DISTINCT w.name
            FROM runner AS r
            CROSS JOIN LATERAL unnest(r.queues) AS w (name)
            WHERE r.idle AND r.leased_until > clock_timestamp() AND w.name = ANY (_wake_runners.queues)
        ) AS q
        -- Called for each notification that would be sent, so an insert without one does not call it.
        WHERE _may_notify()
    );
END
$$;
COMMENT ON FUNCTION _wake_runners IS 'Notifies <schema>.job, with the queue as payload, for each of these queues that an idle runner works. Returns the number of notifications.';

CREATE FUNCTION _tell_runners(workers uuid[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE
AS $$
-- One notification a runner, not a job: a payload has at most 8,000 bytes, and the runner asks which
-- of its jobs are gone anyway. Nothing is sent for runners that are dead.
BEGIN
    RETURN (
        SELECT count(pg_notify(current_schema() || '.control', r.id::text))
        FROM runner AS r
        WHERE r.id = ANY (workers) AND r.leased_until > clock_timestamp() AND _may_notify()
    );
END
$$;
COMMENT ON FUNCTION _tell_runners IS 'Notifies the channel <schema>.control for each of these runners that is alive. The payload is the runner''s id. A notified runner asks which of its running jobs were taken away. Sends nothing when the server''s notification queue is nearly full. Returns the number of notifications.';

CREATE FUNCTION _wake_releaser() RETURNS void
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    PERFORM pg_notify(current_schema() || '.control', 'releaser')
    FROM maintenance AS m
    WHERE m.service = 'releaser' AND m.sleeps AND m.leased_until > clock_timestamp() AND _may_notify();
END
$$;
COMMENT ON FUNCTION _wake_releaser IS 'Notifies the channel <schema>.control with the payload releaser, if the releaser sleeps.';
