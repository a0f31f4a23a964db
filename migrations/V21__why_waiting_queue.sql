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

CREATE FUNCTION _locker(marked xid, locked regclass) RETURNS jsonb
    LANGUAGE plpgsql STABLE
AS $$
-- Reads, and locks nothing itself. The xmax of a row is the transaction that locked or changed it last, or the number of a
-- multixact where several did. It stays when that transaction has ended. The two sorts of number cannot be told apart, so both
-- are looked up. A subtransaction that has ended is not listed among the locks. It belongs to one of the transactions that are
-- older and use the table.
DECLARE
    modes jsonb := '{}';
BEGIN
    IF marked = '0' THEN
        RETURN NULL;
    -- Another number is no multixact of the table, and looking it up would be an error.
    ELSIF mxid_age(marked) BETWEEN 1 AND (SELECT mxid_age(c.relminmxid) FROM pg_class AS c WHERE c.oid = locked) THEN
        modes := (SELECT jsonb_object_agg(m.xid::text, m.mode) FROM pg_get_multixact_members(marked) AS m);
    END IF;
    RETURN (
        WITH lock AS MATERIALIZED (
            SELECT l.locktype, l.database, l.relation, l.transactionid, l.virtualtransaction, l.mode, l.pid, l.granted
            FROM pg_locks AS l
        ),
        holder AS (
            SELECT o.pid, o.transactionid, h.locker = o.transactionid AS is_named, modes ->> h.locker::text AS mode
            FROM (
                SELECT l.xid::xid AS locker
                FROM (SELECT marked::text UNION ALL SELECT jsonb_object_keys(modes)) AS l (xid)
                WHERE _is_open(l.xid::xid)
            ) AS h
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
COMMENT ON FUNCTION _locker IS 'The open transaction that has locked or changed a row of the table, as {"pid", "application", "role", "state", "open_since", "query", "mode", "or"}. marked: the row''s xmax. If several transactions have locked the row, or may have, the oldest is returned. mode: the lock''s mode, if several transactions have locked the row. or: the pids of the other sessions. Null: the row is free.';

CREATE FUNCTION _live_runners(queue_name text) RETURNS TABLE (id uuid, started_at timestamptz, kinds text[], slots integer)
    LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
    SELECT r.id, r.started_at, r.kinds, r.slots[array_position(r.queues, queue_name COLLATE "C")]
    FROM runner AS r
    WHERE r.leased_until > statement_timestamp() AND queue_name COLLATE "C" = ANY (r.queues);
END;
COMMENT ON FUNCTION _live_runners IS 'The live runners of a queue, with their kinds and their slots for it. Null: the runner does not say.';

CREATE FUNCTION _queue_obstacles(queue_name text, not_before timestamptz DEFAULT NULL)
RETURNS TABLE (code text, details jsonb)
    LANGUAGE sql STABLE ROWS 2
AS $$
SELECT 'queue_unworked', jsonb_build_object('queue', queue_name) WHERE NOT EXISTS (SELECT FROM _live_runners(queue_name))
UNION ALL
SELECT o.code, jsonb_build_object('queue', queue_name) || o.details
FROM queue AS q
CROSS JOIN LATERAL (
    SELECT
        _next_token_at(q.rate_count, q.rate_period, q.rate_burst, q.rate_full_at) AS token_at,
        (not_before > statement_timestamp()) IS NOT TRUE AS is_now
) AS n
CROSS JOIN LATERAL (
    SELECT 'queue_paused', jsonb_strip_nulls(jsonb_build_object('since', q.paused_at, 'by', q.paused_by, 'why', q.pause_reason))
    WHERE q.paused_at IS NOT NULL
    UNION ALL
    SELECT 'queue_held', jsonb_build_object('until', q.held_until)
    WHERE q.held_until > greatest(statement_timestamp(), not_before)
    UNION ALL
    SELECT 'queue_limit', jsonb_build_object('jobs', r.jobs, 'limit', q.max_running)
    FROM (
        SELECT count(*) AS jobs
        FROM (SELECT FROM job AS j WHERE j.queue = queue_name AND j.state = 'running' LIMIT coalesce(q.max_running, 0)) AS c
    ) AS r
    WHERE n.is_now AND r.jobs >= q.max_running
    UNION ALL
    SELECT 'queue_rate', jsonb_build_object(
        'until', n.token_at, 'count', q.rate_count, 'period', trim_scale(extract(epoch FROM q.rate_period))
    )
    WHERE n.is_now AND n.token_at > statement_timestamp()
    UNION ALL
    -- A fetch has the row for a moment, and another one waits up to 200 ms for it. A role that may not see the age of other
    -- roles' transactions hears of no lock.
    SELECT 'queue_locked', l.locker
    FROM (SELECT _locker(q.xmax, 'queue') AS locker OFFSET 0) AS l
    WHERE n.is_now AND (l.locker ->> 'open_since')::timestamptz < clock_timestamp() - interval '200 ms'
) AS o (code, details)
WHERE q.name = queue_name
$$;
COMMENT ON FUNCTION _queue_obstacles IS 'The obstacles that keep all jobs of a queue from starting. not_before: only those that last beyond it.';

CREATE FUNCTION _kind_obstacle(queue_name text, kind text) RETURNS TABLE (code text, details jsonb)
    LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
    SELECT 'kind_unknown' AS code, jsonb_build_object('queue', queue_name, 'kind', kind)
    FROM _live_runners(queue_name) AS r
    HAVING bool_and((kind COLLATE "C" <> ALL (r.kinds)) IS TRUE);
END;
COMMENT ON FUNCTION _kind_obstacle IS 'The obstacle kind_unknown, if the queue has live runners and none has a worker for the kind. A runner that does not report its kinds may have any worker.';

CREATE FUNCTION _slots_obstacle(queue_name text, kind text) RETURNS TABLE (code text, details jsonb)
    LANGUAGE sql STABLE ROWS 1
AS $$
SELECT 'slots_busy', jsonb_build_object('queue', queue_name, 'kind', kind, 'slots', sum(r.slots), 'runners', count(*))
FROM (
    SELECT l.id, l.slots, sum(l.slots) OVER () AS all_slots
    FROM _live_runners(queue_name) AS l
    WHERE (kind = ANY (l.kinds)) IS NOT FALSE
) AS r
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs
    FROM (
        SELECT FROM job AS j
        WHERE j.queue = queue_name AND j.state = 'running' AND j.worker = r.id
        LIMIT CASE WHEN r.all_slots <= 10000 THEN coalesce(r.slots, 0) ELSE 0 END
    ) AS c
) AS t
HAVING sum(r.slots) <= 10000 AND bool_and(r.slots IS NOT NULL) AND bool_and(t.jobs >= r.slots)
$$;
COMMENT ON FUNCTION _slots_obstacle IS 'The obstacle slots_busy, if every live runner of the queue that has a worker for the kind has as many jobs of the queue as slots. No row if a runner does not report its slots, or if there are more than 10,000 slots in all.';

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
                FROM (SELECT FROM job AS j WHERE j.queue = queue_name AND j.state = 'running' LIMIT q.max_running) AS c
            )
        )
) AND EXISTS (
    SELECT
    FROM _live_runners(queue_name) AS r
    WHERE r.started_at < statement_timestamp() - waited
        AND NOT EXISTS (SELECT FROM job AS j WHERE j.queue = queue_name AND j.state = 'running' AND j.worker = r.id)
)
$$;
COMMENT ON FUNCTION _has_free_runner IS 'Whether a live runner of a queue has had a free slot for this long.';

CREATE FUNCTION _lately_started(queue_name text, waited interval)
RETURNS TABLE (priority smallint, last_scheduled_at timestamptz)
    LANGUAGE sql STABLE ROWS 1
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
