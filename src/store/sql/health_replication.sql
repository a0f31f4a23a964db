-- Old snapshots held from outside: by replication slots, and by standbys with hot_standby_feedback. Their age is in
-- transactions, since slots have no time. Values that PostgreSQL hides from this role are null.
SELECT to_jsonb(r)
FROM (
    SELECT
        'slot' AS what, s.slot_name::text AS name, s.active AS is_active,
        age(s.xmin) AS snapshot_transactions, age(s.catalog_xmin) AS catalog_transactions
    FROM pg_replication_slots AS s
    WHERE (s.database IS NULL OR s.database = current_database())
        AND (s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL)
    UNION ALL
    SELECT
        'standby', coalesce(nullif(r.application_name, ''), host(r.client_addr), 'pid ' || r.pid), true,
        age(r.backend_xmin), NULL
    FROM pg_stat_replication AS r
    WHERE r.backend_xmin IS NOT NULL
) AS r
ORDER BY r.what COLLATE "C", r.name COLLATE "C"
