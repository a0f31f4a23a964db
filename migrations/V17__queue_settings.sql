-- Changes of queues and groups by people: pause, limits, rates, holds, shares, retention.

CREATE FUNCTION _refuse_beyond_max_waiting() RETURNS trigger
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
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
        FROM (SELECT FROM _available_jobs(s.name, s.max_waiting + n.jobs) LIMIT s.max_waiting + n.jobs) AS c
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
            HINT = 'Nothing was inserted. Try again when workers have started some of them, let more runners work the queue, or raise its max_waiting with set_queue.',
            SCHEMA = current_schema(), TABLE = 'job';
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION _refuse_beyond_max_waiting IS 'Raises error UQ003 if an insert leaves a queue with more available jobs than its max_waiting. The DETAIL is {"queue", "max_waiting", "room"}. room is how many of the new jobs the queue could take. The setting uniqueue.ignore_max_waiting = on exempts the inserts of a session or transaction.';

CREATE FUNCTION pause_queue(queue_name text, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS TABLE (name text, paused_at timestamptz, max_running integer)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    INSERT INTO queue AS q (name, paused_at, paused_by, pause_reason)
    SELECT pause_queue.queue_name, clock_timestamp(), pause_queue.actor, pause_queue.reason
    WHERE _queue_may_be(pause_queue.queue_name) AND _refuse(CASE
        WHEN octet_length(pause_queue.reason) > 1000 THEN
            format('invalid reason: must not be longer than 1,000 bytes: %s', octet_length(pause_queue.reason))
    END)
    ON CONFLICT (name) DO UPDATE
    SET paused_at = coalesce(q.paused_at, excluded.paused_at),
        paused_by = CASE WHEN q.paused_at IS NULL THEN excluded.paused_by ELSE q.paused_by END,
        pause_reason = CASE WHEN q.paused_at IS NULL THEN excluded.pause_reason ELSE coalesce(excluded.pause_reason, q.pause_reason) END
    RETURNING q.name, q.paused_at, q.max_running;
END;
COMMENT ON FUNCTION pause_queue IS 'Pauses a queue: no runner fetches from it. Running jobs are finished. The reason and the actor are stored, and why_waiting names them. A queue that is paused already keeps its paused_at and its actor, and takes a new reason. The queue need not have jobs. Returns its settings.';

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
COMMENT ON FUNCTION resume_queue IS 'Ends the pause and the hold of a queue. Returns its settings, or no row if it was neither paused nor held.';

CREATE FUNCTION _apply_max_waiting() RETURNS trigger
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
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
COMMENT ON FUNCTION _apply_max_waiting IS 'Creates the trigger job_max_waiting when the first queue gets a max_waiting, and drops it when the last one is removed. Waits up to 7 s for open transactions that write to job, then raises error 55P03. Runs with the rights of the schema''s owner, who owns the table.';

CREATE TRIGGER queue_max_waiting
    AFTER INSERT OR UPDATE OF max_waiting OR DELETE ON queue
    FOR EACH ROW EXECUTE FUNCTION _apply_max_waiting();
COMMENT ON TRIGGER queue_max_waiting ON queue IS 'Creates or drops the trigger job_max_waiting when a max_waiting changes.';

CREATE FUNCTION _queue_limit(settings jsonb, member text, present integer) RETURNS integer
    LANGUAGE sql STABLE
    RETURN CASE
        WHEN NOT settings ? member THEN present
        WHEN settings -> member = 'null' THEN NULL
        WHEN (settings -> member) @@ '$.type() == "number" && $ >= 1 && $ <= 2147483647 && $ == $.floor()' THEN
            (settings ->> member)::numeric::integer
        ELSE _refuse(format(
            'invalid %s: must be 1 to 2147483647; %s: %s', member,
            CASE WHEN member = 'max_waiting' THEN 'for no limit give null' ELSE 'to run nothing, pause the queue' END,
            settings -> member
        ))::integer
    END;
COMMENT ON FUNCTION _queue_limit IS 'A limit of a document for set_queue. Null: no limit. Absent: the present one. Error 22023: another value.';

CREATE FUNCTION _read_length(given jsonb) RETURNS interval
    LANGUAGE sql STABLE
    RETURN CASE
        WHEN given = '"forever"' THEN interval '1000 years'
        WHEN jsonb_typeof(given) = 'number' THEN make_interval(secs => given::double precision)
        ELSE (given #>> '{}')::interval
    END;
COMMENT ON FUNCTION _read_length IS 'A length of time in JSON: seconds, the text of an interval, or "forever", a thousand years.';

CREATE FUNCTION _queue_keep(settings jsonb, member text, present interval) RETURNS interval
    LANGUAGE sql STABLE
    RETURN CASE
        WHEN NOT settings ? member THEN present
        WHEN _read_length(settings -> member) < interval '0' THEN
            _refuse(format('invalid %s: must not be negative: %s', member, settings -> member))::text::interval
        ELSE _read_length(settings -> member)
    END;
COMMENT ON FUNCTION _queue_keep IS 'A retention of a document for set_queue. Null: the runners'' own. Absent: the present one.';

CREATE FUNCTION _queue_rate(settings jsonb, member text, OUT starts integer, OUT period interval, OUT burst integer)
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    rate CONSTANT jsonb := settings -> member;
    wanted_burst CONSTANT jsonb := coalesce(nullif(rate -> 'burst', 'null'), rate -> 'count');
    is_count CONSTANT jsonpath := '$.type() == "number" && $ >= 1 && $ <= 1000000 && $ == $.floor()';
BEGIN
    IF coalesce(rate, 'null') = 'null' THEN
        RETURN;
    END IF;
    PERFORM _refuse('invalid ' || member || ': ' || CASE
        WHEN (rate -> 'count' @@ is_count) IS NOT TRUE THEN
            format('count must be 1 to 1000000; to run nothing, pause the queue: %s', coalesce(rate -> 'count', 'null'))
        WHEN (wanted_burst @@ is_count) IS NOT TRUE THEN format('burst must be 1 to 1000000: %s', rate -> 'burst')
    END);
    period := _read_length(rate -> 'period');
    PERFORM _refuse('invalid ' || member || ': ' || CASE
        WHEN (period BETWEEN interval '1 ms' AND interval '31 days') IS NOT TRUE THEN
            format('period must be 1 ms to 31 days: %s', coalesce(rate -> 'period', 'null'))
        WHEN jsonb_typeof(rate -> 'period') = 'number' AND (rate ->> 'period')::numeric % 0.000001 <> 0 THEN
            format('period must be whole microseconds: %s', rate -> 'period')
    END);
    starts := rate -> 'count';
    burst := wanted_burst;
END
$$;
COMMENT ON FUNCTION _queue_rate IS 'A rate of a document for set_queue: {"count", "period", "burst"}. The period is a number of seconds or the text of an interval. The burst is the count where there is none. Nulls: no rate, or none in the document. Error 22023 for a value outside its limits.';

CREATE FUNCTION set_queue(queue_name text, settings jsonb) RETURNS queue
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    changed queue;
BEGIN
    PERFORM _queue_may_be(queue_name);
    PERFORM _refuse('unknown setting of a queue: ' || to_json(min(m.member COLLATE "C")))
    FROM jsonb_object_keys(settings) AS m (member)
    WHERE m.member NOT IN (
        'limit', 'group_limit', 'max_waiting', 'fair', 'rate', 'group_rate', 'keep_completed', 'keep_cancelled', 'keep_discarded'
    );
    INSERT INTO queue (name) VALUES (queue_name) ON CONFLICT (name) DO NOTHING;
    UPDATE queue AS q
    SET max_running = _queue_limit(settings, 'limit', q.max_running),
        max_per_group = _queue_limit(settings, 'group_limit', q.max_per_group),
        max_waiting = _queue_limit(settings, 'max_waiting', q.max_waiting),
        fair = CASE WHEN settings ? 'fair' THEN coalesce((settings ->> 'fair')::boolean, false) ELSE q.fair END,
        keep_completed = _queue_keep(settings, 'keep_completed', q.keep_completed),
        keep_cancelled = _queue_keep(settings, 'keep_cancelled', q.keep_cancelled),
        keep_discarded = _queue_keep(settings, 'keep_discarded', q.keep_discarded),
        rate_count = CASE WHEN settings ? 'rate' THEN r.starts ELSE q.rate_count END,
        rate_period = CASE WHEN settings ? 'rate' THEN r.period ELSE q.rate_period END,
        rate_burst = CASE WHEN settings ? 'rate' THEN r.burst ELSE q.rate_burst END,
        -- No later than if all of the new burst were spent now. A null, where no job started under a rate, stays.
        rate_full_at = CASE
            WHEN NOT settings ? 'rate' THEN q.rate_full_at
            WHEN r.starts IS NOT NULL AND q.rate_full_at IS NOT NULL
                THEN least(q.rate_full_at, clock_timestamp() + _rate_time(r.burst, r.starts, r.period))
        END,
        group_rate_count = CASE WHEN settings ? 'group_rate' THEN g.starts ELSE q.group_rate_count END,
        group_rate_period = CASE WHEN settings ? 'group_rate' THEN g.period ELSE q.group_rate_period END,
        group_rate_burst = CASE WHEN settings ? 'group_rate' THEN g.burst ELSE q.group_rate_burst END
    FROM _queue_rate(settings, 'rate') AS r
    CROSS JOIN _queue_rate(settings, 'group_rate') AS g
    WHERE q.name = queue_name
    RETURNING q.* INTO changed;
    IF settings ? 'group_rate' THEN
        -- Likewise of each group.
        UPDATE queue_group AS g
        SET rate_full_at = clock_timestamp() + n.longest
        FROM (
            SELECT _rate_time(changed.group_rate_burst, changed.group_rate_count, changed.group_rate_period) AS longest
        ) AS n
        WHERE g.queue = queue_name AND g.rate_full_at > clock_timestamp() + coalesce(n.longest, interval '0');
    END IF;
    PERFORM _wake_runners(ARRAY[queue_name]) WHERE settings ?| '{limit,group_limit,rate,group_rate}';
    RETURN changed;
END
$$;
COMMENT ON FUNCTION set_queue IS 'Changes the settings of a queue that the document has: limit, group_limit, max_waiting, fair, rate, group_rate, keep_completed, keep_cancelled, keep_discarded. A null removes a setting. Notifies idle runners where more jobs may start. Returns the queue''s row. Error 22023 for a value outside its limits.';

CREATE FUNCTION _rate_settings(starts integer, period interval, burst integer) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    RETURN CASE
        WHEN starts IS NOT NULL THEN jsonb_build_object('count', starts, 'period', extract(epoch FROM period), 'burst', burst)
    END;
COMMENT ON FUNCTION _rate_settings IS 'A rate as set_queue takes it. Null: no rate.';

CREATE FUNCTION _queue_settings(queue_name text, settings queue) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN jsonb_build_object(
        'name', queue_name,
        'paused_at', (settings).paused_at,
        'paused_by', (settings).paused_by,
        'pause_reason', (settings).pause_reason,
        'limit', (settings).max_running,
        'group_limit', (settings).max_per_group,
        'max_waiting', (settings).max_waiting,
        'fair', coalesce((settings).fair, false),
        'rate', _rate_settings((settings).rate_count, (settings).rate_period, (settings).rate_burst),
        'group_rate', _rate_settings((settings).group_rate_count, (settings).group_rate_period, (settings).group_rate_burst),
        'held_until', CASE WHEN (settings).held_until > clock_timestamp() THEN (settings).held_until END,
        'keep_completed', extract(epoch FROM (settings).keep_completed),
        'keep_cancelled', extract(epoch FROM (settings).keep_cancelled),
        'keep_discarded', extract(epoch FROM (settings).keep_discarded)
    );
COMMENT ON FUNCTION _queue_settings IS 'The settings of a queue as clients read them and set_queue takes them. A null row: nothing is set.';

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
COMMENT ON FUNCTION hold_queue IS 'Holds a queue for a time: no runner fetches from it. Running jobs are finished. A hold that ends later stays. resume_queue ends the hold. Returns the queue''s settings. Error 22023 for a time that is negative or more than 1,000 years.';

CREATE FUNCTION hold_group(queue_name text, group_key text, hold_for interval)
RETURNS TABLE (queue text, group_key text, held_until timestamptz)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    -- The queue's row first, as fetches lock them. A fetch that spends tokens of groups has it, and waits for no group.
    WITH locked AS (
        INSERT INTO queue AS q (name)
        SELECT $1 AS name
        WHERE _queue_may_be($1) AND _hold_may_be($3) AND _refuse(CASE
            WHEN (octet_length($2) BETWEEN 1 AND 512) IS NOT TRUE THEN
                format('invalid group: must be 1 to 512 bytes: %s', coalesce(octet_length($2)::text, 'null'))
        END)
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
COMMENT ON FUNCTION hold_group IS 'Holds a group of a queue for a time: no runner fetches its jobs. A hold that ends later stays. resume_group ends the hold. Returns the group. Error 22023 for a time that is negative or more than 1,000 years.';

CREATE FUNCTION _hold_back(queue_names text[], group_keys text[], hold_for interval[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE
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
COMMENT ON FUNCTION _hold_back IS 'Holds each of these queues for its time, or the group of the queue where a group key is given. The rows must be sorted by queue, and a queue must come before its groups, so that callers and fetches cannot deadlock. Error 55P03 if another transaction has a row locked for more than 200 ms. Returns the number of holds.';

CREATE FUNCTION resume_group(queue_name text, group_key text)
RETURNS TABLE (queue text, group_key text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    -- The queue's row first, as hold_group locks them.
    WITH locked AS (SELECT q.name FROM queue AS q WHERE q.name = $1 FOR NO KEY UPDATE),
    resumed AS (
        UPDATE queue_group AS g
        SET held_at = NULL, held_until = NULL
        WHERE (SELECT count(*) FROM locked) >= 0 AND g.queue = $1 AND g.group_key = $2 AND g.held_until > clock_timestamp()
        RETURNING g.queue, g.group_key, _wake_runners(ARRAY[g.queue::text]) AS woken
    )
    SELECT r.queue, r.group_key FROM resumed AS r;
END;
COMMENT ON FUNCTION resume_group IS 'Ends the hold of a group. Returns the group, or no row if it was not held.';
