-- Changes of queues and groups by people: pause, limits, rates, holds, shares, retention.

CREATE FUNCTION _refuse_beyond_max_waiting() RETURNS trigger
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path FROM CURRENT
    -- As in _insert_one. The counts stop at the limit only where a scan reads an index in its order.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
-- It counts after the insert, so it sees what the statement made of duplicates and replacements. Two transactions that are
-- open at once do not see each other's jobs, so a queue can exceed its limit by what such transactions insert.
DECLARE
    beyond record;
BEGIN
    IF current_setting('uniqueue.ignore_max_waiting', true) = 'on' THEN
        RETURN NULL;
    END IF;
    SELECT s.name, s.max_waiting, n.jobs, greatest(0, s.max_waiting - (w.waiting - n.jobs)) AS room
    INTO beyond
    FROM (SELECT e.queue, count(*) AS jobs FROM entered AS e WHERE e.state = 'available' GROUP BY e.queue) AS n
    CROSS JOIN LATERAL (
        SELECT q.name, q.max_waiting FROM queue AS q WHERE q.name = n.queue AND q.max_waiting IS NOT NULL LIMIT 1
    ) AS s
    CROSS JOIN LATERAL (
        SELECT count(*) AS waiting
        FROM (
            SELECT FROM _available_jobs(s.name, s.max_waiting + n.jobs) LIMIT s.max_waiting + n.jobs
        ) AS c
    ) AS w
    WHERE w.waiting > s.max_waiting
    ORDER BY s.name
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'UQ003',
            MESSAGE = format(
                'queue %s is full: at most %s of its jobs may wait, and it has room for %s of %s new ones',
                to_json(beyond.name::text), beyond.max_waiting, beyond.room, beyond.jobs
            ),
            DETAIL = json_build_object('queue', beyond.name, 'max_waiting', beyond.max_waiting, 'room', beyond.room),
            HINT = 'Nothing was inserted. Try again when workers have started some of them, let more runners work the queue, or raise its limit with limit_waiting.',
            SCHEMA = current_schema(),
            TABLE = 'job';
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION _refuse_beyond_max_waiting() IS
    'Raises error UQ003 if an insert leaves a queue with more available jobs than its max_waiting. The DETAIL is {"queue", "max_waiting", "room"}. room is how many of the new jobs the queue could take. The setting uniqueue.ignore_max_waiting = on exempts the inserts of a session or transaction.';
REVOKE EXECUTE ON FUNCTION _refuse_beyond_max_waiting() FROM PUBLIC;

CREATE FUNCTION pause_queue(queue_name text, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS TABLE (name text, paused_at timestamptz, max_running integer)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    INSERT INTO queue AS q (name, paused_at, paused_by, pause_reason)
    SELECT pause_queue.queue_name, clock_timestamp(), pause_queue.actor, pause_queue.reason
    WHERE _queue_may_be(pause_queue.queue_name)
    ON CONFLICT (name) DO UPDATE
    SET paused_at = coalesce(q.paused_at, excluded.paused_at),
        paused_by = CASE WHEN q.paused_at IS NULL THEN excluded.paused_by ELSE q.paused_by END,
        pause_reason = CASE WHEN q.paused_at IS NULL THEN excluded.pause_reason ELSE coalesce(excluded.pause_reason, q.pause_reason) END
    RETURNING q.name, q.paused_at, q.max_running;
END;
COMMENT ON FUNCTION pause_queue(text, text, text) IS
    'Pauses a queue: no runner fetches from it. Running jobs are finished. The reason and the actor are stored, and why_waiting names them. A queue that is paused already keeps its paused_at and its actor, and takes a new reason. The queue need not have jobs. Returns its settings.';

CREATE FUNCTION resume_queue(queue_name text)
RETURNS TABLE (name text, paused_at timestamptz, max_running integer)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH resumed AS (
        UPDATE queue AS q
        SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, held_at = NULL, held_until = NULL
        WHERE q.name = resume_queue.queue_name AND (q.paused_at IS NOT NULL OR q.held_until > clock_timestamp())
        RETURNING q.name, q.paused_at, q.max_running, _wake_runners(ARRAY[q.name::text]) AS woken
    )
    SELECT r.name, r.paused_at, r.max_running FROM resumed AS r;
END;
COMMENT ON FUNCTION resume_queue(text) IS
    'Ends the pause and the hold of a queue, and notifies idle runners. Holds of its groups stay. Returns its settings, or no row if it was neither paused nor held.';

CREATE FUNCTION limit_queue(queue_name text, max_running integer)
RETURNS TABLE (name text, paused_at timestamptz, max_running integer)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH limited AS (
        INSERT INTO queue AS q (name, max_running)
        SELECT limit_queue.queue_name, limit_queue.max_running
        WHERE _queue_may_be(limit_queue.queue_name) AND _limit_may_be('max_running', limit_queue.max_running)
        ON CONFLICT (name) DO UPDATE SET max_running = excluded.max_running
        RETURNING q.name, q.paused_at, q.max_running, _wake_runners(ARRAY[q.name::text]) AS woken
    )
    SELECT l.name, l.paused_at, l.max_running FROM limited AS l;
END;
COMMENT ON FUNCTION limit_queue(text, integer) IS
    'Limits how many of a queue''s jobs run at the same time, over all runners. Null: no limit. Notifies idle runners, because there may be room. Returns the queue''s settings. Error 22023 for a limit below 1.';

CREATE FUNCTION _apply_max_waiting() RETURNS trigger
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path FROM CURRENT
    -- Longer than a fetch waits for the queue's row, which this transaction has locked.
    SET lock_timeout = '300ms'
AS $$
-- The table job has the trigger job_max_waiting only while a queue has a limit, so that inserts pay nothing for a limit that
-- no queue has.
--
-- To create or drop the trigger, the transaction needs the table job without open writers, and other sessions cannot write
-- to it until this transaction ends. The function waits in short tries, since inserts queue up behind each of them.
DECLARE
    tries integer := 0;
    is_wanted boolean;
    is_there boolean;
BEGIN
    -- A limit that only moves needs no change.
    IF num_nonnulls(OLD.max_waiting, NEW.max_waiting) <> 1 THEN
        RETURN NULL;
    END IF;
    LOOP
        tries := tries + 1;
        BEGIN
            -- One change after another, each of which sees what the one before it committed.
            PERFORM pg_advisory_xact_lock(hashtext('uniqueue.max_waiting'), to_regclass('job')::oid::integer);
            is_wanted := EXISTS (SELECT FROM queue AS q WHERE q.max_waiting IS NOT NULL);
            is_there := EXISTS (
                SELECT FROM pg_trigger AS t WHERE t.tgrelid = to_regclass('job') AND t.tgname = 'job_max_waiting'
            );
            IF is_wanted AND NOT is_there THEN
                CREATE TRIGGER job_max_waiting
                    AFTER INSERT ON job
                    REFERENCING NEW TABLE AS entered
                    FOR EACH STATEMENT EXECUTE FUNCTION _refuse_beyond_max_waiting();
                COMMENT ON TRIGGER job_max_waiting ON job IS
                    'Refuses inserts beyond queue.max_waiting. It exists while a queue has such a limit.';
            ELSIF is_there AND NOT is_wanted THEN
                DROP TRIGGER job_max_waiting ON job;
            END IF;
            RETURN NULL;
        EXCEPTION
            WHEN lock_not_available THEN
                IF tries >= 15 THEN
                    RAISE lock_not_available USING
                        MESSAGE = 'cannot set max_waiting of a queue while other transactions write to table job',
                        HINT = 'Try again when no transaction that has inserted or changed jobs is open for long.';
                END IF;
                PERFORM pg_sleep(0.02 * tries);
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION _apply_max_waiting() IS
    'Creates the trigger job_max_waiting when the first queue gets a max_waiting, and drops it when the last one is removed. Waits up to 7 s for open transactions that write to job, then raises error 55P03. Runs with the rights of the schema''s owner, who owns the table.';
REVOKE EXECUTE ON FUNCTION _apply_max_waiting() FROM PUBLIC;

CREATE TRIGGER queue_max_waiting
    AFTER INSERT OR UPDATE OF max_waiting OR DELETE ON queue
    FOR EACH ROW EXECUTE FUNCTION _apply_max_waiting();
COMMENT ON TRIGGER queue_max_waiting ON queue IS 'Creates or drops the trigger job_max_waiting when a max_waiting changes.';

CREATE FUNCTION limit_waiting(queue_name text, max_waiting integer)
RETURNS TABLE (name text, paused_at timestamptz, max_waiting integer)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    INSERT INTO queue AS q (name, max_waiting)
    SELECT limit_waiting.queue_name, limit_waiting.max_waiting
    WHERE _queue_may_be(limit_waiting.queue_name) AND CASE
        WHEN limit_waiting.max_waiting < 1 THEN
            _refuse(format('invalid max_waiting: must be at least 1: %s', limit_waiting.max_waiting))
        ELSE true
    END
    ON CONFLICT (name) DO UPDATE SET max_waiting = excluded.max_waiting
    RETURNING q.name, q.paused_at, q.max_waiting;
END;
COMMENT ON FUNCTION limit_waiting(text, integer) IS
    'Limits how many available jobs a queue may have. Null: no limit. An insert beyond the limit is error UQ003. Scheduled, retryable and pending jobs do not count, and becoming available is never refused. Periodic jobs are never refused. Existing jobs stay. Setting the first limit or removing the last one waits up to 7 s for open transactions that write to job, then raises error 55P03. Inserts wait until this transaction ends. Returns the queue''s settings. Error 22023 for a limit below 1.';

CREATE FUNCTION limit_groups(queue_name text, max_per_group integer)
RETURNS TABLE (name text, paused_at timestamptz, max_per_group integer, fair boolean)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH limited AS (
        INSERT INTO queue AS q (name, max_per_group)
        SELECT limit_groups.queue_name, limit_groups.max_per_group
        WHERE _queue_may_be(limit_groups.queue_name) AND _limit_may_be('max_per_group', limit_groups.max_per_group)
        ON CONFLICT (name) DO UPDATE SET max_per_group = excluded.max_per_group
        RETURNING q.name, q.paused_at, q.max_per_group, q.fair, _wake_runners(ARRAY[q.name::text]) AS woken
    )
    SELECT l.name, l.paused_at, l.max_per_group, l.fair FROM limited AS l;
END;
COMMENT ON FUNCTION limit_groups(text, integer) IS
    'Limits how many jobs of each group of a queue run at the same time, over all runners. Null: the jobs'' own limits apply. The lower of this limit and a job''s group_limit applies. Running jobs are finished. Notifies idle runners. Returns the queue''s settings. Error 22023 for a limit below 1.';

CREATE FUNCTION rate_queue(queue_name text, rate_count integer, period interval DEFAULT NULL, burst integer DEFAULT NULL)
RETURNS TABLE (name text, paused_at timestamptz, rate_count integer, rate_period interval, rate_burst integer)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH rated AS (
        INSERT INTO queue AS q (name, rate_count, rate_period, rate_burst)
        SELECT $1 AS name, $2 AS rate_count, $3 AS rate_period, coalesce($4, $2)
        WHERE _queue_may_be($1) AND _rate_may_be($2, $3, $4)
        ON CONFLICT (name) DO UPDATE
        SET rate_count = excluded.rate_count,
            rate_period = excluded.rate_period,
            rate_burst = excluded.rate_burst,
            -- No later than if all of the new burst were spent now. A null, where no job started under a rate, stays:
            -- least would take it for the later time.
            rate_full_at = CASE
                WHEN excluded.rate_count IS NOT NULL AND q.rate_full_at IS NOT NULL THEN least(
                    q.rate_full_at,
                    clock_timestamp() + _rate_time(excluded.rate_burst, excluded.rate_count, excluded.rate_period)
                )
            END
        RETURNING q.name, q.paused_at, q.rate_count, q.rate_period, q.rate_burst, _wake_runners(ARRAY[q.name::text]) AS woken
    )
    SELECT r.name, r.paused_at, r.rate_count, r.rate_period, r.rate_burst FROM rated AS r;
END;
COMMENT ON FUNCTION rate_queue(text, integer, interval, integer) IS
    'Limits how many of a queue''s jobs start in each period, over all runners. burst is how many may start at once after a time without starts. Its default is the count. A null count removes the rate. In any length of time at most burst + count * length / period jobs start. Notifies idle runners. Returns the queue''s settings. Error 22023 for a count or a burst outside 1 to 1,000,000, or a period outside 1 ms to 31 days.';

CREATE FUNCTION _move_group_times(queue_name text, rate_count integer, period interval, burst integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
-- A statement of its own, which sees what fetches spent before the caller had the queue's row.
DECLARE
    moved bigint;
BEGIN
    UPDATE queue_group AS g
    SET rate_full_at = CASE
            WHEN _move_group_times.rate_count IS NOT NULL THEN clock_timestamp() + _rate_time(burst, _move_group_times.rate_count, period)
        END
    WHERE g.queue = queue_name
        AND g.rate_full_at > clock_timestamp() + coalesce(_rate_time(burst, _move_group_times.rate_count, period), interval '0');
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END
$$;
COMMENT ON FUNCTION _move_group_times(text, integer, interval, integer) IS
    'Moves the times in queue_group when the groups of a queue get another rate. No time is later than if the whole new burst were spent now. The caller has the queue''s row locked. Returns the number of changed rows.';

CREATE FUNCTION rate_groups(queue_name text, rate_count integer, period interval DEFAULT NULL, burst integer DEFAULT NULL)
RETURNS TABLE (
    name text, paused_at timestamptz, group_rate_count integer, group_rate_period interval, group_rate_burst integer
)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH rated AS (
        INSERT INTO queue AS q (name, group_rate_count, group_rate_period, group_rate_burst)
        SELECT $1 AS name, $2 AS group_rate_count, $3 AS group_rate_period, coalesce($4, $2)
        WHERE _queue_may_be($1) AND _rate_may_be($2, $3, $4)
        ON CONFLICT (name) DO UPDATE
        SET group_rate_count = excluded.group_rate_count,
            group_rate_period = excluded.group_rate_period,
            group_rate_burst = excluded.group_rate_burst
        RETURNING
            q.name, q.paused_at, q.group_rate_count, q.group_rate_period, q.group_rate_burst,
            _move_group_times(q.name, q.group_rate_count, q.group_rate_period, q.group_rate_burst) AS moved,
            _wake_runners(ARRAY[q.name::text]) AS woken
    )
    SELECT r.name, r.paused_at, r.group_rate_count, r.group_rate_period, r.group_rate_burst FROM rated AS r;
END;
COMMENT ON FUNCTION rate_groups(text, integer, interval, integer) IS
    'Limits how many jobs of each group of a queue start in each period, as rate_queue does for the queue. Jobs without a group do not count. The queue''s own rate applies as well.';

CREATE FUNCTION hold_queue(queue_name text, hold_for interval)
RETURNS TABLE (name text, paused_at timestamptz, held_until timestamptz)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    INSERT INTO queue AS q (name, held_at, held_until)
    SELECT $1 AS name, t.at, t.at + $2 FROM (SELECT clock_timestamp() AS at) AS t WHERE _queue_may_be($1) AND _hold_may_be($2)
    ON CONFLICT (name) DO UPDATE
    SET held_at = CASE WHEN q.held_until >= excluded.held_until THEN q.held_at ELSE excluded.held_at END,
        held_until = greatest(q.held_until, excluded.held_until)
    RETURNING q.name, q.paused_at, q.held_until;
END;
COMMENT ON FUNCTION hold_queue(text, interval) IS
    'Holds a queue for a time: no runner fetches from it. Running jobs are finished. A hold that ends later stays. resume_queue ends the hold. Returns the queue''s settings. Error 22023 for a time that is negative or more than 1,000 years.';

CREATE FUNCTION hold_group(queue_name text, group_key text, hold_for interval)
RETURNS TABLE (queue text, group_key text, held_until timestamptz)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    -- The queue's row first, as fetches lock them. A fetch that spends tokens of groups has it, and waits for no group.
    WITH locked AS (
        INSERT INTO queue AS q (name)
        SELECT $1 AS name
        WHERE _queue_may_be($1) AND _hold_may_be($3) AND CASE
            WHEN octet_length($2) BETWEEN 1 AND 512 THEN true
            ELSE _refuse(format('invalid group: must be 1 to 512 bytes: %s', coalesce(octet_length($2)::text, 'null')))
        END
        ON CONFLICT (name) DO UPDATE SET held_until = q.held_until
        RETURNING q.name
    )
    INSERT INTO queue_group AS g (queue, group_key, held_at, held_until)
    SELECT l.name, $2 AS group_key, t.at, t.at + $3 FROM locked AS l CROSS JOIN (SELECT clock_timestamp() AS at) AS t
    ON CONFLICT ON CONSTRAINT queue_group_pkey DO UPDATE
    SET held_at = CASE WHEN g.held_until >= excluded.held_until THEN g.held_at ELSE excluded.held_at END,
        held_until = greatest(g.held_until, excluded.held_until)
    RETURNING g.queue, g.group_key, g.held_until;
END;
COMMENT ON FUNCTION hold_group(text, text, interval) IS
    'Holds a group of a queue for a time: no runner fetches its jobs. A hold that ends later stays. resume_group ends the hold. Returns the group. Error 22023 for a time that is negative or more than 1,000 years.';

CREATE FUNCTION _hold_back(queue_names text[], group_keys text[], hold_for interval[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET lock_timeout = '200ms'
AS $$
BEGIN
    FOR place IN 1..cardinality(queue_names) LOOP
        IF group_keys[place] IS NULL THEN
            PERFORM hold_queue(queue_names[place], hold_for[place]);
        ELSE
            PERFORM hold_group(queue_names[place], group_keys[place], hold_for[place]);
        END IF;
    END LOOP;
    RETURN cardinality(queue_names);
END
$$;
COMMENT ON FUNCTION _hold_back(text[], text[], interval[]) IS
    'Holds each of these queues for its time, or the group of the queue where a group key is given. The rows must be sorted by queue, and a queue must come before its groups, so that callers and fetches cannot deadlock. Error 55P03 if another transaction has a row locked for more than 200 ms. Returns the number of holds.';

CREATE FUNCTION resume_group(queue_name text, group_key text)
RETURNS TABLE (queue text, group_key text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    -- The queue's row first, as hold_group locks them.
    WITH locked AS (
        SELECT q.name FROM queue AS q WHERE q.name = $1 FOR NO KEY UPDATE
    ),
    resumed AS (
        UPDATE queue_group AS g
        SET held_at = NULL, held_until = NULL
        WHERE (SELECT count(*) FROM locked) >= 0 AND g.queue = $1 AND g.group_key = $2 AND g.held_until > clock_timestamp()
        RETURNING g.queue, g.group_key, _wake_runners(ARRAY[g.queue::text]) AS woken
    )
    SELECT r.queue, r.group_key FROM resumed AS r;
END;
COMMENT ON FUNCTION resume_group(text, text) IS
    'Ends the hold of a group of a queue, and notifies idle runners. Returns the group, or no row if it was not held.';

CREATE FUNCTION share_queue(queue_name text, fair boolean)
RETURNS TABLE (name text, paused_at timestamptz, max_per_group integer, fair boolean)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    INSERT INTO queue AS q (name, fair)
    SELECT share_queue.queue_name, coalesce(share_queue.fair, false) WHERE _queue_may_be(share_queue.queue_name)
    ON CONFLICT (name) DO UPDATE SET fair = excluded.fair
    RETURNING q.name, q.paused_at, q.max_per_group, q.fair;
END;
COMMENT ON FUNCTION share_queue(text, boolean) IS
    'Makes a queue fair, or not. Within a priority the groups of every queue take turns. In a fair queue the jobs without a group take turns with them, as one more group. Otherwise those jobs come by their time. Returns the queue''s settings.';

CREATE FUNCTION retain_queue(
    queue_name text, keep_completed interval, keep_cancelled interval, keep_discarded interval
)
RETURNS TABLE (name text, paused_at timestamptz, max_running integer)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    INSERT INTO queue AS q (name, keep_completed, keep_cancelled, keep_discarded)
    SELECT
        retain_queue.queue_name, retain_queue.keep_completed, retain_queue.keep_cancelled, retain_queue.keep_discarded
    WHERE _queue_may_be(retain_queue.queue_name) AND CASE
        WHEN least(retain_queue.keep_completed, retain_queue.keep_cancelled, retain_queue.keep_discarded) < interval '0' THEN
            _refuse(format(
                'invalid retention: must not be negative: %s',
                least(retain_queue.keep_completed, retain_queue.keep_cancelled, retain_queue.keep_discarded)
            ))
        ELSE true
    END
    ON CONFLICT (name) DO UPDATE
    SET keep_completed = excluded.keep_completed,
        keep_cancelled = excluded.keep_cancelled,
        keep_discarded = excluded.keep_discarded
    RETURNING q.name, q.paused_at, q.max_running;
END;
COMMENT ON FUNCTION retain_queue(text, interval, interval, interval) IS
    'Sets how long completed, cancelled and discarded jobs of a queue are kept. 0 for completed jobs deletes them when they complete. Null: the runners'' retention applies. To keep jobs for ever, set a long time, such as 1000 years. Returns the queue''s settings. Error 22023 for a negative time.';
