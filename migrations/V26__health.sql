-- Views of the health of the tables: retention, vacuum, and inserts that wait.

CREATE FUNCTION retentions(look_at integer DEFAULT 20000)
RETURNS TABLE (
    queue text, state text, keep interval, is_default boolean, overdue bigint, overdue_by interval, has_pruner boolean
)
    LANGUAGE sql STABLE
AS $$
-- Ids follow time, so jobs past their retention have ids below a border. A pruner that keeps up leaves none there. One
-- that does not leaves them just below the border and at the start of the table. The view reads those two ranges, and
-- needs no index on finalized_at.
WITH kept AS (
    SELECT q.name AS queue, k.state COLLATE "C" AS state, k.keep
    FROM queue AS q
    CROSS JOIN LATERAL (
        VALUES ('completed', q.keep_completed), ('cancelled', q.keep_cancelled), ('discarded', q.keep_discarded)
    ) AS k (state, keep)
),
usual AS (
    SELECT u.state COLLATE "C" AS state, u.keep
    FROM (
        VALUES ('completed', interval '1 day'), ('cancelled', interval '1 day'), ('discarded', interval '7 days')
    ) AS u (state, keep)
),
border AS (
    SELECT id_at(statement_timestamp() - b.keep - interval '5 minutes') AS id, count(*) OVER () AS borders
    FROM (
        SELECT least(k.keep, interval '1000 years') AS keep FROM kept AS k WHERE k.keep IS NOT NULL
        UNION
        SELECT u.keep FROM usual AS u
        ORDER BY keep
        LIMIT 20
    ) AS b
),
looked_at AS MATERIALIZED (
    SELECT s.id, s.queue, s.state, s.finalized_at, s.held_until
    FROM border AS b
    CROSS JOIN LATERAL (
        SELECT j.id, j.queue, j.state::text COLLATE "C" AS state, j.finalized_at, CASE WHEN j.claims THEN j.unique_until END AS held_until
        FROM job AS j
        WHERE j.id < b.id
        ORDER BY j.id DESC
        LIMIT look_at / b.borders
    ) AS s
    UNION
    (
        SELECT j.id, j.queue, j.state::text COLLATE "C" AS state, j.finalized_at, CASE WHEN j.claims THEN j.unique_until END
        FROM job AS j
        ORDER BY j.id
        LIMIT look_at
    )
),
late AS (
    SELECT l.queue, l.state, count(*) AS overdue, max(o.overdue_by) AS overdue_by
    FROM looked_at AS l
    JOIN usual AS u ON u.state = l.state
    LEFT JOIN kept AS k ON k.queue = l.queue AND k.state = l.state
    CROSS JOIN LATERAL (
        SELECT statement_timestamp()
            - greatest(l.finalized_at + least(coalesce(k.keep, u.keep), interval '1000 years'), l.held_until) AS overdue_by
    ) AS o
    WHERE o.overdue_by > interval '5 minutes'
    GROUP BY l.queue, l.state
),
named AS (
    SELECT q.name FROM queue AS q
    UNION
    SELECT l.queue FROM looked_at AS l WHERE l.finalized_at IS NOT NULL
)
SELECT
    n.name, u.state, coalesce(k.keep, u.keep), k.keep IS NULL,
    coalesce(l.overdue, 0), l.overdue_by,
    EXISTS (
        SELECT FROM maintenance AS m
        WHERE m.service = 'pruner' AND m.holder IS NOT NULL AND m.leased_until > statement_timestamp()
    )
FROM named AS n
CROSS JOIN usual AS u
LEFT JOIN kept AS k ON k.queue = n.name AND k.state = u.state
LEFT JOIN late AS l ON l.queue = n.name AND l.state = u.state
ORDER BY n.name, u.state
$$;
COMMENT ON FUNCTION retentions IS 'The rows of the view retention, from the look_at oldest jobs and look_at that reached their retention.';

CREATE VIEW retention AS
SELECT r.* FROM retentions() AS r;
COMMENT ON VIEW retention IS 'One row per queue and final state: how long such jobs are kept, and how many are overdue for deletion. Many overdue jobs mean that the pruner does not keep up. Reads at most 40,000 jobs. The function retentions() takes another number. Reads with the caller''s rights.';
COMMENT ON COLUMN retention.state IS 'The final state: completed, cancelled or discarded.';
COMMENT ON COLUMN retention.queue IS 'The name of the queue.';
COMMENT ON COLUMN retention.keep IS 'How long such jobs are kept.';
COMMENT ON COLUMN retention.is_default IS 'Whether the queue sets no retention. keep is then the default of runners.';
COMMENT ON COLUMN retention.overdue IS 'How many of the jobs that were read should have been deleted more than five minutes ago.';
COMMENT ON COLUMN retention.overdue_by IS 'The time since the first overdue job should have been deleted. Null: none is overdue.';
COMMENT ON COLUMN retention.has_pruner IS 'Whether a live runner holds the lease of the pruner.';

CREATE VIEW table_health AS
WITH option AS (
    SELECT
        c.oid AS relid,
        max(o.option_value COLLATE "C") FILTER (WHERE o.option_name = 'autovacuum_enabled') AS autovacuum_enabled,
        max(o.option_value COLLATE "C") FILTER (WHERE o.option_name = 'autovacuum_vacuum_threshold') AS threshold,
        max(o.option_value COLLATE "C") FILTER (WHERE o.option_name = 'autovacuum_vacuum_scale_factor') AS scale_factor,
        max(o.option_value COLLATE "C") FILTER (WHERE o.option_name = 'autovacuum_vacuum_max_threshold') AS max_threshold
    FROM pg_class AS c
    LEFT JOIN LATERAL pg_options_to_table(c.reloptions) AS o ON true
    WHERE c.relkind = 'r' AND c.relnamespace = (SELECT j.relnamespace FROM pg_class AS j WHERE j.oid = 'job'::regclass)
    GROUP BY c.oid
),
snapshot AS (
    -- The snapshots that keep vacuum from removing dead rows in this database.
    SELECT
        CASE WHEN a.datid IS NULL THEN 'standby' ELSE 'session' END AS holder,
        a.application_name AS name, a.pid, a.state, a.query,
        statement_timestamp() - a.xact_start AS age,
        greatest(age(a.backend_xmin), age(a.backend_xid)) AS transactions,
        coalesce(age(a.backend_xid), 0) AS own_transactions
    FROM pg_stat_activity AS a
    WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
        AND a.pid <> pg_backend_pid()
        AND (a.datid IS NULL OR a.datname = current_database())
        -- The snapshot of a vacuum does not count for other vacuums.
        AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum AS v WHERE v.pid = a.pid)
    UNION ALL
    SELECT
        'prepared transaction' AS holder, p.gid, NULL AS pid, NULL AS state, NULL AS query,
        statement_timestamp() - p.prepared, age(p.transaction), age(p.transaction)
    FROM pg_prepared_xacts AS p
    WHERE p.database = current_database()
    UNION ALL
    SELECT
        'replication slot' AS holder, s.slot_name::text, s.active_pid, NULL AS state, NULL AS query, NULL AS age,
        age(s.xmin), 0
    FROM pg_replication_slots AS s
    WHERE s.xmin IS NOT NULL
),
oldest AS MATERIALIZED (
    SELECT s.holder, s.name, s.pid, s.state, s.query, s.age, s.transactions
    FROM snapshot AS s
    -- Of two that are equally old, the one with the older transaction id: the other's snapshot waits for it.
    ORDER BY s.transactions DESC, s.own_transactions DESC, s.age DESC NULLS LAST
    LIMIT 1
),
health AS (
    SELECT
        c.oid, c.relname::text AS table_name,
        coalesce(nullif(pg_stat_get_live_tuples(c.oid), 0), greatest(c.reltuples, 0)::bigint) AS live_rows,
        pg_stat_get_dead_tuples(c.oid) AS dead_rows,
        pg_table_size(c.oid) AS table_bytes,
        pg_indexes_size(c.oid) AS index_bytes,
        greatest(pg_stat_get_last_vacuum_time(c.oid), pg_stat_get_last_autovacuum_time(c.oid)) AS last_vacuum_at,
        greatest(pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)) AS last_analyze_at,
        current_setting('autovacuum')::boolean
            AND current_setting('track_counts')::boolean
            AND coalesce(o.autovacuum_enabled::boolean, true) AS autovacuum_is_on,
        least(
            coalesce(o.threshold, current_setting('autovacuum_vacuum_threshold'))::double precision
                + coalesce(o.scale_factor, current_setting('autovacuum_vacuum_scale_factor'))::double precision
                * greatest(c.reltuples, 0),
            -- From PostgreSQL 18 on; -1 is none.
            nullif(coalesce(o.max_threshold, current_setting('autovacuum_vacuum_max_threshold', true))::double precision, -1)
        )::bigint AS vacuum_at_dead_rows
    FROM option AS o
    JOIN pg_class AS c ON c.oid = o.relid
)
SELECT
    h.table_name, h.live_rows, h.dead_rows,
    coalesce(h.dead_rows / nullif(h.live_rows + h.dead_rows, 0)::double precision, 0) AS dead_part,
    h.table_bytes, h.index_bytes, h.table_bytes + h.index_bytes AS total_bytes,
    h.last_vacuum_at, h.last_analyze_at, h.autovacuum_is_on, h.vacuum_at_dead_rows,
    h.dead_rows > h.vacuum_at_dead_rows AS vacuum_is_due,
    EXISTS (
        SELECT FROM pg_stat_progress_vacuum AS v WHERE v.relid = h.oid AND v.datname = current_database()
    ) AS is_being_vacuumed,
    s.age AS oldest_snapshot_age, s.transactions::bigint AS oldest_snapshot_transactions,
    s.pid AS oldest_snapshot_pid, s.holder AS oldest_snapshot_holder, s.name AS oldest_snapshot_name,
    s.state AS oldest_snapshot_state, s.query AS oldest_snapshot_query
FROM health AS h
LEFT JOIN oldest AS s ON true
ORDER BY h.table_bytes + h.index_bytes DESC, h.table_name;
COMMENT ON VIEW table_health IS 'One row per table of the schema, the largest first: its dead rows, and whether a vacuum is due. Each row also names the holder of the database''s oldest snapshot, which keeps vacuum from removing dead rows. A role without pg_read_all_stats sees of other roles'' sessions the pid, the name and the age in transactions. It sees neither their age, state and query, nor whether a vacuum runs.';
COMMENT ON COLUMN table_health.table_name IS 'The name of the table.';
COMMENT ON COLUMN table_health.live_rows IS 'The number of live rows, by the statistics.';
COMMENT ON COLUMN table_health.dead_rows IS 'The number of dead rows that no vacuum has removed yet, by the statistics.';
COMMENT ON COLUMN table_health.dead_part IS 'The part of the rows that is dead, 0 to 1.';
COMMENT ON COLUMN table_health.table_bytes IS 'The size of the table, including values stored out of line.';
COMMENT ON COLUMN table_health.index_bytes IS 'The size of the table''s indexes.';
COMMENT ON COLUMN table_health.total_bytes IS 'The size of the table and its indexes.';
COMMENT ON COLUMN table_health.last_vacuum_at IS 'When a manual or automatic vacuum last ended. Null: never, or before the statistics were reset.';
COMMENT ON COLUMN table_health.last_analyze_at IS 'When a manual or automatic ANALYZE last ended. Null: never, or before the statistics were reset.';
COMMENT ON COLUMN table_health.autovacuum_is_on IS 'Whether autovacuum is on for the table.';
COMMENT ON COLUMN table_health.vacuum_at_dead_rows IS 'The number of dead rows at which autovacuum begins, by the settings in force.';
COMMENT ON COLUMN table_health.vacuum_is_due IS 'Whether the table has more dead rows than that.';
COMMENT ON COLUMN table_health.is_being_vacuumed IS 'Whether a vacuum of the table runs now.';
COMMENT ON COLUMN table_health.oldest_snapshot_age IS 'The time since the transaction with the oldest snapshot began. Null: no other session has a snapshot, or the role may not see it.';
COMMENT ON COLUMN table_health.oldest_snapshot_transactions IS 'How many transactions began since the oldest snapshot. Null: no other session has a snapshot.';
COMMENT ON COLUMN table_health.oldest_snapshot_pid IS 'The session with the oldest snapshot. pg_terminate_backend(pid) ends it. Null: a prepared transaction.';
COMMENT ON COLUMN table_health.oldest_snapshot_holder IS 'The kind of holder: session, prepared transaction, replication slot or standby.';
COMMENT ON COLUMN table_health.oldest_snapshot_name IS 'The application_name of the session or standby, the gid of the prepared transaction, or the name of the slot.';
COMMENT ON COLUMN table_health.oldest_snapshot_state IS 'The state of the session, such as idle in transaction.';
COMMENT ON COLUMN table_health.oldest_snapshot_query IS 'The statement of the session, or its last one.';

CREATE VIEW waiting_insert AS
WITH key_index AS MATERIALIZED (
    -- By its name: REINDEX CONCURRENTLY gives an index another OID.
    SELECT x.indexrelid AS oid
    FROM pg_index AS x
    JOIN pg_class AS c ON c.oid = x.indexrelid
    WHERE x.indrelid = 'job'::regclass AND c.relname = 'job_unique_key'
),
lock AS MATERIALIZED (
    SELECT
        l.pid, l.virtualtransaction, l.locktype, l.relation, l.page, l.tuple, l.transactionid, l.objid,
        l.mode, l.granted, l.waitstart
    FROM pg_locks AS l
    WHERE l.locktype IN ('transactionid', 'spectoken')
        OR (
            l.locktype IN ('relation', 'tuple')
            AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
            AND (l.relation = 'job'::regclass OR l.relation = (SELECT i.oid FROM key_index AS i))
        )
),
waiter AS (
    -- Sessions that wait for another transaction during a write to the job table. A session that waits to change or lock
    -- a row holds the lock on the row's place, or waits for that lock. An insert that waits for a key has no such lock, and
    -- writes to the index of keys.
    SELECT
        w.pid, w.waitstart,
        coalesce(p.page, w.page) AS page, coalesce(p.tuple, w.tuple) AS tuple,
        -- Behind other sessions in the queue for a row: the transaction that the first of them waits for.
        CASE WHEN w.locktype = 'tuple' THEN f.locktype ELSE w.locktype END AS locktype,
        coalesce(w.transactionid, f.transactionid) AS transactionid,
        coalesce(w.objid, f.objid) AS objid
    FROM lock AS w
    LEFT JOIN lock AS p
        ON p.locktype = 'tuple'
        AND p.relation = 'job'::regclass
        AND p.granted
        AND (p.pid = w.pid OR (w.locktype = 'tuple' AND (p.page, p.tuple) = (w.page, w.tuple)))
    LEFT JOIN lock AS f ON w.locktype = 'tuple' AND f.pid = p.pid AND f.locktype = 'transactionid' AND NOT f.granted
    WHERE NOT w.granted
        AND w.locktype <> 'relation'
        AND (
            coalesce(p.page, w.page) IS NOT NULL
            OR EXISTS (
                SELECT FROM lock AS k
                WHERE k.pid = w.pid
                    AND k.relation = (SELECT i.oid FROM key_index AS i)
                    AND k.locktype = 'relation'
                    AND k.mode = 'RowExclusiveLock'
            )
        )
)
SELECT
    w.pid, a.application_name AS application, a.usename::text AS role_name, a.query,
    w.waitstart AS waiting_since, statement_timestamp() - w.waitstart AS waiting_for,
    CASE WHEN w.page IS NULL THEN 'a key' ELSE 'a job' END AS waits_for,
    h.unique_key, h.id AS holder,
    b.pid AS blocker_pid, coalesce(o.application_name, p.gid) AS blocker_application,
    coalesce(o.usename, p.owner)::text AS blocker_role,
    CASE WHEN p.gid IS NOT NULL THEN 'prepared transaction' ELSE o.state END AS blocker_state,
    o.query AS blocker_query,
    statement_timestamp() - coalesce(o.xact_start, p.prepared) AS blocker_open_for
FROM waiter AS w
JOIN lock AS b
    ON b.granted
    AND b.mode = 'ExclusiveLock'
    AND b.locktype = w.locktype
    AND b.transactionid = w.transactionid
    AND b.objid IS NOT DISTINCT FROM w.objid
LEFT JOIN pg_stat_activity AS a ON a.pid = w.pid
LEFT JOIN pg_stat_activity AS o ON o.pid = b.pid
LEFT JOIN pg_prepared_xacts AS p ON p.transaction = w.transactionid
LEFT JOIN job AS h ON h.ctid = ('(' || w.page || ',' || w.tuple || ')')::tid
WHERE (w.page IS NULL OR a.query COLLATE "C" ILIKE '%insert%' OR a.query = '<insufficient privilege>')
    AND EXISTS (
        SELECT FROM lock AS k
        WHERE k.virtualtransaction = b.virtualtransaction AND k.locktype = 'relation' AND k.relation = 'job'::regclass
    )
ORDER BY w.waitstart;
COMMENT ON VIEW waiting_insert IS 'One row per insert that waits for another transaction, which has inserted a job with the same key or id, or is changing the holder. The wait ends at the blocker''s commit or rollback, or at lock_timeout or max_wait. A role without pg_read_all_stats sees of other roles'' sessions the pids, applications and waiting times, but no queries, states or ages.';
COMMENT ON COLUMN waiting_insert.pid IS 'The session that waits.';
COMMENT ON COLUMN waiting_insert.application IS 'The application_name of the session that waits.';
COMMENT ON COLUMN waiting_insert.role_name IS 'The role of the session that waits.';
COMMENT ON COLUMN waiting_insert.query IS 'The statement that waits.';
COMMENT ON COLUMN waiting_insert.waiting_since IS 'When the wait began. Null for a moment at the start.';
COMMENT ON COLUMN waiting_insert.waiting_for IS 'The time since the wait began.';
COMMENT ON COLUMN waiting_insert.waits_for IS 'a key: an uncommitted job has the key, and no other session can see which; a job: another transaction is changing the holder, which this row names.';
COMMENT ON COLUMN waiting_insert.unique_key IS 'The unique key of the holder. Null: the session waits for an uncommitted job.';
COMMENT ON COLUMN waiting_insert.holder IS 'The holder that is being changed: job.id. Null: the session waits for an uncommitted job.';
COMMENT ON COLUMN waiting_insert.blocker_pid IS 'The session that blocks the insert. pg_terminate_backend(pid) rolls its transaction back. Null: a prepared transaction.';
COMMENT ON COLUMN waiting_insert.blocker_application IS 'The application_name of the blocking session, or the gid of the prepared transaction.';
COMMENT ON COLUMN waiting_insert.blocker_role IS 'The role of the blocking session.';
COMMENT ON COLUMN waiting_insert.blocker_state IS 'The state of the blocking session: idle in transaction, active, prepared transaction.';
COMMENT ON COLUMN waiting_insert.blocker_query IS 'The statement of the blocking session, or its last one.';
COMMENT ON COLUMN waiting_insert.blocker_open_for IS 'How long the blocking transaction has been open.';
