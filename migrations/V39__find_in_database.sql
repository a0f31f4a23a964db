-- Checks of the database: sessions that hold it up, dead rows, vacuum, indexes, and retention.

CREATE FUNCTION _find_transactions(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
-- A transaction matters if others wait for it, if it sits idle on changed rows of the queue, or if it has a snapshot. One that
-- only waits goes on when the transaction that it waits for ends, which is a finding of its own. PostgreSQL shows other roles'
-- sessions only to members of pg_read_all_stats.
WITH waiting AS MATERIALIZED (SELECT DISTINCT l.pid FROM pg_locks AS l WHERE NOT l.granted LIMIT 200),
blocking AS MATERIALIZED (
    SELECT b.pid, count(DISTINCT w.pid) AS sessions
    FROM waiting AS w
    CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS b (pid)
    GROUP BY b.pid
),
open AS (
    SELECT
        a.pid, a.usename::text AS role, a.application_name AS application, host(a.client_addr) AS client, a.state,
        left(regexp_replace(a.query COLLATE "C", '[[:space:]]+', ' ', 'g'), 120) AS query,
        _age(a.xact_start) AS open_for,
        a.state COLLATE "C" LIKE 'idle in transaction%' AS is_idle,
        coalesce(a.wait_event_type = 'Lock', false) AS waits,
        age(a.backend_xmin) AS snapshot_transactions,
        coalesce(b.sessions, 0) AS blocks,
        ARRAY(
            SELECT DISTINCT c.relname::text COLLATE "C"
            FROM pg_locks AS l
            JOIN pg_class AS c ON c.oid = l.relation
            WHERE l.pid = a.pid
                AND l.granted
                -- Those that only read hold AccessShareLock.
                AND l.mode <> 'AccessShareLock'
                AND c.relnamespace = quote_ident(current_schema())::regnamespace
                AND c.relkind IN ('r', 'p')
        ) AS changes
    FROM pg_stat_activity AS a
    LEFT JOIN blocking AS b ON b.pid = a.pid
    WHERE a.datname = current_database()
        AND a.pid <> pg_backend_pid()
        -- The snapshot of a vacuum delays no other vacuum, and a parallel worker belongs to its leader.
        AND a.backend_type = 'client backend'
        AND a.xact_start <= clock_timestamp() - _span(thresholds #> '{transaction,0}')
        AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL OR a.state COLLATE "C" LIKE 'idle in transaction%')
    ORDER BY coalesce(b.sessions, 0) DESC, a.xact_start, a.pid
    LIMIT 20
)
SELECT
    CASE WHEN w.is_in_the_way THEN 'blocking_transaction' ELSE 'old_snapshot' END,
    _judge(o.open_for, thresholds -> 'transaction'),
    format('session %s (%s%s)', o.pid, coalesce(nullif(o.application, ''), 'no application name'), ', role ' || o.role),
    format(
        '%s, its transaction open for %s%s%s%s; its %s statement: %s',
        coalesce(nullif(o.state, ''), 'state unknown'), _age_text(o.open_for),
        ', has changed or locked rows of ' || nullif(array_to_string(o.changes, ', '), ''),
        CASE WHEN o.blocks > 0 THEN format(', %s for it', _counted(o.blocks, 'session waits', 'sessions wait')) END,
        ', holds a snapshot ' || _counted(o.snapshot_transactions, 'transaction', 'transactions')
            || ' old, which keeps dead rows from being cleaned up',
        CASE WHEN o.is_idle THEN 'last' ELSE 'running' END, coalesce(nullif(o.query, ''), 'unknown')
    ),
    CASE
        WHEN o.is_idle THEN 'Commit or roll back there, or end the session, which rolls back; idle_in_transaction_session_timeout keeps it from coming back'
        ELSE 'Wait for it, or end the session, which rolls back'
    END,
    format('SELECT pg_terminate_backend(%s);', o.pid), NULL, to_jsonb(o)
FROM open AS o
CROSS JOIN LATERAL (SELECT o.blocks > 0 OR (o.is_idle AND o.changes <> '{}') AS is_in_the_way) AS w
WHERE (NOT o.waits OR o.blocks > 0) AND (w.is_in_the_way OR o.snapshot_transactions IS NOT NULL)
UNION ALL
SELECT
    'prepared_transaction', _judge(o.open_for, thresholds -> 'transaction'), 'prepared transaction ' || o.gid,
    format(
        'prepared %s ago by role %s and neither committed nor rolled back: it holds its locks and a snapshot, which keeps dead rows from being cleaned up',
        _age_text(o.open_for), o.role
    ),
    'Ask the transaction manager that prepared it; else roll it back, as its role',
    format('ROLLBACK PREPARED %L;', o.gid), NULL, to_jsonb(o)
FROM (
    SELECT p.gid, p.owner::text AS role, _age(p.prepared) AS open_for
    FROM pg_prepared_xacts AS p
    WHERE p.database = current_database()
    ORDER BY p.prepared
    LIMIT 20
) AS o
$$;
COMMENT ON FUNCTION _find_transactions IS 'Finds open and prepared transactions that block sessions, hold rows, or have an old snapshot.';

CREATE FUNCTION _oldest_transactions() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 'SELECT pid, usename, application_name, state, now() - xact_start AS open_for, left(query, 80) AS query
FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 5;';
COMMENT ON FUNCTION _oldest_transactions IS 'A statement that lists the five transactions that have been open for longest.';

CREATE FUNCTION _find_replication(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
-- In transactions, since slots have no time. What PostgreSQL hides from the role is null.
SELECT
    'replication_slot', _judge(s.behind, thresholds -> 'transactions_behind'), 'replication slot ' || s.name,
    format(
        '%s; its snapshot is %s old, which keeps %s from being cleaned up',
        CASE WHEN s.is_active THEN 'its consumer is connected' ELSE 'no consumer is connected' END,
        _counted(s.behind, 'transaction', 'transactions'),
        CASE WHEN s.snapshot_transactions IS NULL THEN 'dead rows of the catalogs' ELSE 'dead rows' END
    ),
    'See why its consumer is behind; drop the slot if it is no longer needed',
    format('SELECT pg_drop_replication_slot(%L);', s.name), NULL, to_jsonb(s)
FROM (
    SELECT
        s.slot_name::text AS name, s.active AS is_active, age(s.xmin) AS snapshot_transactions,
        coalesce(age(s.xmin), age(s.catalog_xmin)) AS behind
    FROM pg_replication_slots AS s
    WHERE s.database IS NULL OR s.database = current_database()
) AS s
UNION ALL
SELECT
    'standby_feedback', _judge(r.behind, thresholds -> 'transactions_behind'), 'standby ' || r.name,
    format(
        'a query there has a snapshot %s old, and hot_standby_feedback keeps dead rows from being cleaned up here',
        _counted(r.behind, 'transaction', 'transactions')
    ),
    'On the standby, end its longest query, or bound them with max_standby_streaming_delay and without feedback',
    '-- On the standby:' || chr(10) || _oldest_transactions(), NULL, to_jsonb(r)
FROM (
    SELECT
        coalesce(nullif(r.application_name, ''), host(r.client_addr), 'pid ' || r.pid) AS name, age(r.backend_xmin) AS behind
    FROM pg_stat_replication AS r
) AS r
$$;
COMMENT ON FUNCTION _find_replication IS 'Finds old snapshots of replication slots, and of standbys with hot_standby_feedback.';

CREATE FUNCTION _find_notifications(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
SELECT
    'notify_queue', _judge(u.notify_usage, thresholds -> 'notify_usage'), 'the server''s queue of notifications',
    format('%s %% of it is used; when it is full, every transaction with a NOTIFY fails', round(100 * u.notify_usage)),
    'A session listens in a transaction that it leaves open: end the oldest of these sessions, if it is not needed',
    _oldest_transactions(), NULL, to_jsonb(u)
FROM (SELECT pg_notification_queue_usage() AS notify_usage) AS u
$$;
COMMENT ON FUNCTION _find_notifications IS 'Finds out whether the server''s queue of notifications fills up.';

CREATE FUNCTION _find_tables(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
WITH seen AS (
    SELECT
        h.table_name, h.live_rows, h.dead_rows, h.dead_part, h.total_bytes, h.autovacuum_is_on, h.vacuum_at_dead_rows,
        h.vacuum_is_due, h.is_being_vacuumed, _age(h.last_vacuum_at) AS vacuumed_ago,
        coalesce(
            _judge(extract(epoch FROM h.oldest_snapshot_age)::double precision, thresholds -> 'transaction'),
            _judge(h.oldest_snapshot_transactions, thresholds -> 'transactions_behind')
        ) IS NOT NULL AS has_holder
    FROM table_health AS h
)
SELECT f.code, f.severity, 'table ' || s.table_name, f.seen, f.advice, f.sql, NULL, to_jsonb(s)
FROM seen AS s
CROSS JOIN LATERAL (
    SELECT
        format(
            '%s of %s are dead (%s %%)', to_char(s.dead_rows, 'FM999,999,999,999,999'),
            _counted(s.live_rows + s.dead_rows, 'row', 'rows'), round(100 * s.dead_part)
        ) AS share,
        CASE
            WHEN s.is_being_vacuumed THEN 'a vacuum is running'
            WHEN s.vacuumed_ago IS NULL THEN 'no vacuum is known'
            ELSE format('the last vacuum ended %s ago', _age_text(s.vacuumed_ago))
        END AS vacuumed,
        s.dead_rows >= (thresholds ->> 'dead_rows')::numeric AS are_many,
        -- Autovacuum wakes up once a minute by default, so it is late only after some minutes.
        s.autovacuum_is_on AND s.dead_rows > 2 * s.vacuum_at_dead_rows AND NOT s.is_being_vacuumed
            AND coalesce(s.vacuumed_ago > 600, true) AS is_overdue,
        format('VACUUM (ANALYZE) %I.%I;', current_schema(), s.table_name) AS vacuum
) AS w
CROSS JOIN LATERAL (
    VALUES (
        -- The small tables of a queue change all the time, and all of them grow without vacuum.
        'autovacuum_off', CASE WHEN NOT s.autovacuum_is_on THEN 'warning' END,
        format('autovacuum is off for it; %s, %s', w.share, w.vacuumed),
        'Switch it on for the table, and for the server: autovacuum and track_counts',
        format('ALTER TABLE %I.%I RESET (autovacuum_enabled);
SHOW autovacuum;
SHOW track_counts;', current_schema(), s.table_name)
    ),
    (
        'autovacuum_late', CASE WHEN w.is_overdue AND w.are_many THEN 'warning' END,
        format(
            '%s, autovacuum is due from %s on, and %s', w.share, to_char(s.vacuum_at_dead_rows, 'FM999,999,999,999,999'), w.vacuumed
        ),
        'See that autovacuum''s workers are not all at other tables (autovacuum_max_workers) and not slowed down (autovacuum_vacuum_cost_limit); a vacuum by hand helps at once',
        w.vacuum
    ),
    (
        'dead_rows', CASE WHEN w.are_many AND NOT w.is_overdue THEN _judge(s.dead_part, thresholds -> 'dead_part') END,
        format('%s, %s: fetches read them', w.share, w.vacuumed),
        CASE
            WHEN s.has_holder THEN 'End the session that holds the old snapshot, named in another finding; then vacuum'
            ELSE 'Vacuum it'
        END,
        w.vacuum
    )
) AS f (code, severity, seen, advice, sql)
$$;
COMMENT ON FUNCTION _find_tables IS 'Finds tables of the queue with many dead rows, and those that no vacuum reaches.';

CREATE FUNCTION _bloated_indexes(least_pages numeric, factor numeric)
RETURNS TABLE (name text, pages bigint, needed bigint, is_owner boolean)
    LANGUAGE sql STABLE
AS $$
-- The need is estimated from the last ANALYZE of the table, with the free space of a fresh index. The estimate is high rather
-- than low: a value that PostgreSQL stores once for many equal rows counts for each row.
WITH width AS (
    SELECT
        i.indexrelid, i.indrelid,
        -- The line pointer, the header of the entry, and each column rounded up to eight bytes.
        sum(ceil(CASE WHEN t.typlen > 0 THEN t.typlen ELSE coalesce(s.avg_width, 1024) END::numeric / 8) * 8) + 12 AS entry
    FROM pg_index AS i
    JOIN pg_class AS c ON c.oid = i.indexrelid
    JOIN pg_am AS m ON m.oid = c.relam AND m.amname = 'btree'
    JOIN pg_class AS r ON r.oid = i.indrelid
    JOIN pg_namespace AS n ON n.oid = r.relnamespace
    JOIN pg_attribute AS a ON a.attrelid = i.indexrelid
    JOIN pg_type AS t ON t.oid = a.atttypid
    LEFT JOIN pg_attribute AS o ON o.attrelid = i.indrelid AND o.attnum = i.indkey[a.attnum - 1]
    LEFT JOIN pg_stats AS s ON s.schemaname = n.nspname AND s.tablename = r.relname AND s.attname = o.attname
    WHERE n.oid = quote_ident(current_schema())::regnamespace AND i.indisvalid AND i.indisready
    GROUP BY i.indexrelid, i.indrelid
),
size AS (
    SELECT
        w.indexrelid, w.indrelid, c.relname, c.relowner,
        pg_relation_size(w.indexrelid) / current_setting('block_size')::bigint AS pages,
        -- Nine tenths of a page are filled; a twenty-fifth more for the pages above the leaves.
        ceil(c.reltuples * w.entry / (current_setting('block_size')::bigint - 40) / 0.9 * 1.04) + 2 AS needed
    FROM width AS w
    JOIN pg_class AS c ON c.oid = w.indexrelid
    JOIN pg_class AS r ON r.oid = w.indrelid
    WHERE c.reltuples >= 0 AND r.reltuples >= 0
)
SELECT s.relname::text AS name, s.pages, s.needed::bigint AS needed, pg_has_role(s.relowner, 'USAGE') AS is_owner
FROM size AS s
WHERE s.pages >= least_pages AND s.pages >= factor * s.needed
ORDER BY s.pages - s.needed DESC, s.relname
$$;
COMMENT ON FUNCTION _bloated_indexes IS 'The indexes of the queue with at least this many pages that hold at least this multiple of the pages that they need. The most bloated comes first. Indexes other than B-trees, and those of tables that were never analysed, are left out.';

CREATE FUNCTION _find_indexes(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
SELECT
    'index_invalid',
    CASE WHEN i.may_be_building THEN 'notice' WHEN i.is_leftover THEN 'warning' ELSE 'critical' END,
    format('index %s of %s', i.name, i.of_table),
    format(
        'no query uses it, since %s; %s',
        CASE WHEN i.may_be_building THEN 'it is being built, or building it failed' ELSE 'building it failed' END,
        CASE WHEN i.is_written THEN 'every write maintains it' ELSE 'it is empty' END
    ),
    CASE
        WHEN i.is_leftover THEN 'A failed rebuild left it behind: drop it, as the owner of the tables'
        ELSE 'Rebuild it without blocking writes, as the owner of the tables'
    END,
    format(
        CASE WHEN i.is_leftover THEN 'DROP INDEX CONCURRENTLY %I.%I;' ELSE 'REINDEX INDEX CONCURRENTLY %I.%I;' END,
        current_schema(), i.name
    ),
    NULL, to_jsonb(i)
FROM (
    SELECT
        c.relname::text AS name,
        r.relname::text AS of_table,
        -- What a failed REINDEX CONCURRENTLY leaves behind beside the index that it was for.
        c.relname ~ '_cc(new|old)[0-9]*$' AS is_leftover,
        x.indisready AS is_written,
        EXISTS (
            SELECT FROM pg_locks AS l
            WHERE l.relation = x.indrelid
                AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
                AND l.mode = 'ShareUpdateExclusiveLock'
                AND l.granted
        ) AS may_be_building
    FROM pg_index AS x
    JOIN pg_class AS c ON c.oid = x.indexrelid
    JOIN pg_class AS r ON r.oid = x.indrelid
    WHERE r.relnamespace = quote_ident(current_schema())::regnamespace AND NOT x.indisvalid
) AS i
UNION ALL
SELECT
    'index_bloated', 'warning', 'index ' || b.name,
    format(
        'it has %s and needs about %s: %s times as much', pg_size_pretty(b.pages * b.page), pg_size_pretty(b.needed * b.page),
        round(b.pages::numeric / greatest(b.needed, 1), 1)
    ),
    'A runner that owns the tables rebuilds it within a day (Runner::reindex_interval); or rebuild it by hand, as the owner, without blocking writes',
    format('REINDEX INDEX CONCURRENTLY %I.%I;', current_schema(), b.name), NULL, to_jsonb(b)
FROM (
    SELECT b.name, b.pages, b.needed, s.page
    FROM (SELECT current_setting('block_size')::bigint AS page) AS s
    CROSS JOIN LATERAL _bloated_indexes(
        (thresholds ->> 'bloat_bytes')::numeric / s.page, (thresholds ->> 'bloat_factor')::numeric
    ) AS b
) AS b
$$;
COMMENT ON FUNCTION _find_indexes IS 'Finds indexes that no query uses, because building them failed, and bloated ones.';

CREATE FUNCTION _find_retention(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
SELECT
    'retention_late', _judge(o.overdue_by, thresholds -> 'retention'), 'queue ' || o.queue,
    format(
        'at least %s are past their retention of %s by up to %s; %s',
        _counted(o.overdue, o.state || ' job', o.state || ' jobs'), o.keep, _age_text(o.overdue_by),
        CASE
            WHEN o.has_pruner THEN 'the pruner runs and cannot keep up, or a transaction has them locked'
            ELSE 'no live runner has the pruner''s lease'
        END
    ),
    CASE
        WHEN o.has_pruner THEN 'Keep fewer jobs (a retention of 0 deletes completed ones at once), let the pruner run more often (Runner::prune_interval), or delete by hand, a batch at a time until nothing is deleted'
        ELSE 'Start a runner, or delete by hand, a batch at a time until nothing is deleted'
    END,
    format('DELETE FROM %1$I.job WHERE id IN (
    SELECT id FROM %1$I.job
    WHERE queue = %2$L AND state = %3$L AND finalized_at < now() - %4$L::interval
        AND (unique_until IS NULL OR unique_until < now() OR NOT claims)
    ORDER BY id LIMIT 10000
);', current_schema(), o.queue, o.state, o.keep),
    NULL, to_jsonb(o)
FROM (
    SELECT t.queue, t.state, t.overdue, t.has_pruner, t.keep, extract(epoch FROM t.overdue_by)::double precision AS overdue_by
    FROM retention AS t
    WHERE t.overdue > 0
        -- Where the queue says nothing and a live runner keeps jobs for longer than is usual, nothing is overdue.
        AND NOT (
            t.is_default
            AND EXISTS (
                SELECT FROM runner AS r
                WHERE r.leased_until > clock_timestamp()
                    AND t.keep < CASE t.state
                        WHEN 'completed' THEN r.keep_completed
                        WHEN 'cancelled' THEN r.keep_cancelled
                        ELSE r.keep_discarded
                    END
            )
        )
    ORDER BY t.overdue DESC, t.queue COLLATE "C", t.state COLLATE "C"
    LIMIT 100
) AS o
$$;
COMMENT ON FUNCTION _find_retention IS 'Finds queues whose final jobs are past their retention.';
