-- Transactions of this database that have been open for at least $1. Each with the age of its snapshot, which keeps
-- dead rows from being cleaned up, the queue's tables that it has changed, and the number of sessions that wait for it.
-- PostgreSQL shows other roles' sessions only to members of pg_read_all_stats. $2: the schema, quoted.
WITH waiting AS MATERIALIZED (
    SELECT DISTINCT l.pid FROM pg_locks AS l WHERE NOT l.granted LIMIT 200
),
blocking AS MATERIALIZED (
    SELECT b.pid, count(DISTINCT w.pid) AS sessions
    FROM waiting AS w
    CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS b (pid)
    GROUP BY b.pid
)
SELECT to_jsonb(s)
FROM (
    SELECT
        a.pid, a.usename::text AS role, a.application_name AS application, host(a.client_addr) AS client, a.state,
        left(regexp_replace(a.query COLLATE "C", '\s+', ' ', 'g'), 120) AS query,
        extract(epoch FROM clock_timestamp() - a.xact_start)::double precision AS open_for,
        a.state COLLATE "C" LIKE 'idle in transaction%' AS is_idle,
        coalesce(a.wait_event_type = 'Lock', false) AS waits,
        age(a.backend_xmin) AS snapshot_transactions,
        coalesce(b.sessions, 0) AS blocks,
        ARRAY(
            SELECT DISTINCT c.relname::text
            FROM pg_locks AS l
            JOIN pg_class AS c ON c.oid = l.relation
            WHERE l.pid = a.pid
                AND l.granted
                -- Those that only read hold AccessShareLock.
                AND l.mode <> 'AccessShareLock'
                AND c.relnamespace = to_regnamespace($2)
                AND c.relkind IN ('r', 'p')
        ) AS changes
    FROM pg_stat_activity AS a
    LEFT JOIN blocking AS b ON b.pid = a.pid
    WHERE a.datname = current_database()
        AND a.pid <> pg_backend_pid()
        -- The snapshot of a vacuum delays no other vacuum, and a parallel worker belongs to its leader.
        AND a.backend_type = 'client backend'
        AND a.xact_start <= clock_timestamp() - $1::interval
        AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL OR a.state COLLATE "C" LIKE 'idle in transaction%')
    ORDER BY coalesce(b.sessions, 0) DESC, a.xact_start, a.pid
    LIMIT 20
) AS s
