-- What keeps the jobs of a queue from starting: its settings, its runners, locks.
-- Called by why_waiting and stuck_jobs, which have them planned by index.

CREATE FUNCTION _is_open(transaction xid) RETURNS boolean
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    upper CONSTANT bigint := pg_snapshot_xmax(pg_current_snapshot())::text;
    span CONSTANT bigint := 4294967296;
    -- Transactions are at most half of what 32 bits can name away from each other.
    distance CONSTANT bigint := ((transaction::text::bigint - upper) % span + span + span / 2) % span - span / 2;
BEGIN
    RETURN upper + distance > 2 AND pg_xact_status((upper + distance)::text::xid8) = 'in progress';
EXCEPTION
    -- The number of a transaction to come.
    WHEN invalid_parameter_value THEN
        RETURN false;
END
$$;
COMMENT ON FUNCTION _is_open IS 'Whether a transaction or a subtransaction is open.';

CREATE FUNCTION _open_lockers(marked xid, locked regclass) RETURNS TABLE (locker xid, mode text)
    LANGUAGE plpgsql STABLE
    ROWS 1
AS $$
-- The xmax of a row is the transaction that locked or changed it last, or the number of a multixact where several did. It
-- stays when that transaction has ended. The two sorts of number cannot be told apart, so both are looked up.
DECLARE
    modes jsonb := '{}';
BEGIN
    -- Another number is no multixact of the table, and looking it up would be an error.
    IF mxid_age(marked) BETWEEN 1 AND (SELECT mxid_age(c.relminmxid) FROM pg_class AS c WHERE c.oid = locked) THEN
        modes := (SELECT jsonb_object_agg(m.xid::text, m.mode) FROM pg_get_multixact_members(marked) AS m);
    END IF;
    RETURN QUERY
    SELECT l.xid::xid, modes ->> l.xid
    FROM (SELECT marked::text UNION ALL SELECT jsonb_object_keys(modes)) AS l (xid)
    WHERE _is_open(l.xid::xid);
END
$$;
COMMENT ON FUNCTION _open_lockers IS
    'The open transactions and subtransactions that have locked or changed a row of the table. marked: the row''s xmax. mode: the lock''s mode, if several transactions have locked the row.';

CREATE FUNCTION _locker(marked xid, locked regclass) RETURNS jsonb
    LANGUAGE plpgsql STABLE
AS $$
-- Reads, and locks nothing itself. A subtransaction that has ended is not listed among the locks. It belongs to one of the
-- transactions that are older and use the table.
BEGIN
    IF marked = '0' THEN
        RETURN NULL;
    END IF;
    RETURN (
        WITH lock AS MATERIALIZED (
            SELECT l.locktype, l.database, l.relation, l.transactionid, l.virtualtransaction, l.mode, l.pid, l.granted
            FROM pg_locks AS l
        ),
        holder AS (
            SELECT o.pid, o.transactionid, h.locker = o.transactionid AS is_named, h.mode
            FROM _open_lockers(marked, locked) AS h
            JOIN lock AS o
                ON o.locktype = 'transactionid' AND o.mode = 'ExclusiveLock' AND o.granted
                AND (o.transactionid = h.locker OR age(o.transactionid) > age(h.locker))
            WHERE EXISTS (
                SELECT FROM lock AS k
                WHERE k.virtualtransaction = o.virtualtransaction AND k.locktype = 'relation' AND k.relation = locked
                    -- A table of another database can have the same OID.
                    AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
            )
        ),
        likely AS (
            SELECT h.pid, h.transactionid::text COLLATE "C" AS transaction, min(h.mode COLLATE "C") AS mode
            FROM holder AS h
            WHERE h.is_named OR NOT EXISTS (SELECT FROM holder AS n WHERE n.is_named)
            GROUP BY h.pid, h.transactionid::text COLLATE "C"
        )
        SELECT jsonb_strip_nulls(jsonb_build_object(
            'pid', l.pid,
            'application', coalesce(a.application_name, p.gid),
            'role', coalesce(a.usename, p.owner),
            'state', CASE WHEN p.gid IS NOT NULL THEN 'prepared transaction' ELSE a.state END,
            'open_since', coalesce(a.xact_start, p.prepared),
            'query', left(a.query, 1000),
            'mode', l.mode,
            'or', (SELECT nullif(array_remove(array_agg(o.pid ORDER BY o.pid), l.pid), '{}') FROM likely AS o)
        ))
        FROM likely AS l
        LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
        LEFT JOIN pg_prepared_xacts AS p ON p.transaction::text COLLATE "C" = l.transaction
        ORDER BY coalesce(a.xact_start, p.prepared), l.pid
        LIMIT 1
    );
END
$$;
COMMENT ON FUNCTION _locker IS
    'The open transaction that has locked or changed a row of the table, as {"pid", "application", "role", "state", "open_since", "query", "mode", "or"}. marked: the row''s xmax. If several transactions have locked the row, or may have, the oldest is returned. mode: the lock''s mode, if several transactions have locked the row. or: the pids of the other sessions. Null: the row is free.';

CREATE FUNCTION _live_runners(queue_name text) RETURNS TABLE (id uuid, started_at timestamptz, kinds text[], slots integer)
    LANGUAGE sql STABLE
    ROWS 10
BEGIN ATOMIC
    SELECT r.id, r.started_at, r.kinds, r.slots[array_position(r.queues, queue_name COLLATE "C")]
    FROM runner AS r
    WHERE r.leased_until > statement_timestamp() AND queue_name COLLATE "C" = ANY (r.queues);
END;
COMMENT ON FUNCTION _live_runners IS 'The live runners of a queue, with their kinds and their slots for it. Null: the runner does not say.';

CREATE FUNCTION _queue_obstacles(queue_name text, not_before timestamptz DEFAULT NULL)
RETURNS TABLE (code text, details jsonb)
    LANGUAGE plpgsql STABLE
    ROWS 2
AS $$
DECLARE
    settings record;
    of_queue CONSTANT jsonb := jsonb_build_object('queue', queue_name);
    running bigint;
    token_at timestamptz;
    locker jsonb;
BEGIN
    IF NOT EXISTS (SELECT FROM _live_runners(queue_name)) THEN
        RETURN QUERY SELECT 'queue_unworked', of_queue;
    END IF;
    SELECT
        q.paused_at, q.paused_by, q.pause_reason, q.held_until, q.max_running,
        q.rate_count, q.rate_period, q.rate_burst, q.rate_full_at, q.xmax AS locker
    INTO settings
    FROM queue AS q
    WHERE q.name = queue_name;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF settings.paused_at IS NOT NULL THEN
        RETURN QUERY
        SELECT 'queue_paused', of_queue || jsonb_strip_nulls(jsonb_build_object(
            'since', settings.paused_at, 'by', settings.paused_by, 'why', settings.pause_reason
        ));
    END IF;
    IF settings.held_until > greatest(statement_timestamp(), not_before) THEN
        RETURN QUERY SELECT 'queue_held', of_queue || jsonb_build_object('until', settings.held_until);
    END IF;
    IF not_before > statement_timestamp() THEN
        RETURN;
    END IF;
    IF settings.max_running IS NOT NULL THEN
        SELECT count(*)
        INTO running
        FROM (
            SELECT FROM job AS j WHERE j.queue = queue_name AND j.state = 'running' LIMIT settings.max_running
        ) AS r;
        IF running >= settings.max_running THEN
            RETURN QUERY
            SELECT 'queue_limit', of_queue || jsonb_build_object('jobs', running, 'limit', settings.max_running);
        END IF;
    END IF;
    token_at := _next_token_at(settings.rate_count, settings.rate_period, settings.rate_burst, settings.rate_full_at);
    IF token_at > statement_timestamp() THEN
        RETURN QUERY
        SELECT 'queue_rate', of_queue || jsonb_build_object(
            'until', token_at, 'count', settings.rate_count, 'period', trim_scale(extract(epoch FROM settings.rate_period))
        );
    END IF;
    locker := _locker(settings.locker, 'queue');
    -- A fetch has the row for a moment, and another one waits up to 200 ms for it. A role that may not see the age of other
    -- roles' transactions hears of no lock.
    IF (locker ->> 'open_since')::timestamptz < clock_timestamp() - interval '200 ms' THEN
        RETURN QUERY SELECT 'queue_locked', of_queue || locker;
    END IF;
END
$$;
COMMENT ON FUNCTION _queue_obstacles IS
    'The obstacles that keep every job of a queue from starting, as codes and details. not_before: returns only obstacles that last beyond this time, if it is in the future.';

CREATE FUNCTION _kind_obstacle(queue_name text, kind text) RETURNS TABLE (code text, details jsonb)
    LANGUAGE sql STABLE
    ROWS 1
BEGIN ATOMIC
    SELECT 'kind_unknown' AS code, jsonb_build_object('queue', queue_name, 'kind', kind)
    FROM _live_runners(queue_name) AS r
    HAVING bool_and((kind COLLATE "C" <> ALL (r.kinds)) IS TRUE);
END;
COMMENT ON FUNCTION _kind_obstacle IS 'The obstacle kind_unknown, if no live runner of the queue has a worker for the kind, or may have one.';

CREATE FUNCTION _slots_obstacle(queue_name text, kind text) RETURNS TABLE (code text, details jsonb)
    LANGUAGE plpgsql STABLE
    ROWS 1
AS $$
DECLARE
    all_slots bigint;
    runners bigint;
BEGIN
    SELECT sum(r.slots), count(*)
    INTO all_slots, runners
    FROM _live_runners(queue_name) AS r
    WHERE (kind = ANY (r.kinds)) IS NOT FALSE
    HAVING bool_and(r.slots IS NOT NULL);
    -- More than that are not counted.
    IF all_slots IS NULL OR all_slots > 10000 OR EXISTS (
        SELECT
        FROM _live_runners(queue_name) AS r
        CROSS JOIN LATERAL (
            SELECT count(*) AS jobs
            FROM (
                SELECT FROM job AS j WHERE j.queue = queue_name AND j.state = 'running' AND j.worker = r.id LIMIT r.slots
            ) AS c
        ) AS t
        WHERE (kind = ANY (r.kinds)) IS NOT FALSE AND t.jobs < r.slots
    ) THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 'slots_busy', jsonb_build_object('queue', queue_name, 'kind', kind, 'slots', all_slots, 'runners', runners);
END
$$;
COMMENT ON FUNCTION _slots_obstacle IS
    'The obstacle slots_busy, if every live runner of the queue that has a worker for the kind has as many jobs of the queue as slots. No row if a runner does not report its slots, or if there are more than 10,000 slots in all.';

CREATE FUNCTION _has_free_runner(queue_name text, waited interval) RETURNS boolean
    LANGUAGE sql STABLE
AS $$
-- A runner that has none of the queue's jobs would take the next one, if it knew its kind. A runner is not free while the
-- queue is at its limit, is held, or has no token of its rate.
SELECT NOT EXISTS (
    SELECT
    FROM queue AS q
    WHERE q.name = queue_name
        AND (
            q.held_until > statement_timestamp() - waited
            OR _next_token_at(q.rate_count, q.rate_period, q.rate_burst, q.rate_full_at) > statement_timestamp() - waited
            OR q.max_running <= (
                SELECT count(*)
                FROM (
                    SELECT FROM job AS j WHERE j.queue = queue_name AND j.state = 'running' LIMIT q.max_running
                ) AS c
            )
        )
) AND EXISTS (
    SELECT
    FROM _live_runners(queue_name) AS r
    WHERE r.started_at < statement_timestamp() - waited
        AND NOT EXISTS (
            SELECT FROM job AS j WHERE j.queue = queue_name AND j.state = 'running' AND j.worker = r.id
        )
)
$$;
COMMENT ON FUNCTION _has_free_runner IS 'Whether a live runner of a queue has had a free slot for this long.';

CREATE FUNCTION _lately_started(queue_name text, waited interval)
RETURNS TABLE (priority smallint, last_scheduled_at timestamptz)
    LANGUAGE sql STABLE
    ROWS 1
BEGIN ATOMIC
    SELECT r.priority, max(r.scheduled_at)
    FROM (
        SELECT j.priority, j.scheduled_at, j.attempted_at
        FROM job AS j
        WHERE j.queue = queue_name AND j.state = 'running'
        LIMIT 10000
    ) AS r
    WHERE r.attempted_at > statement_timestamp() - waited
    GROUP BY r.priority;
END;
COMMENT ON FUNCTION _lately_started IS 'For each priority of a queue the scheduled_at of the last running job that started within this time.';
