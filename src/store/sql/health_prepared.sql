-- Transactions that were prepared (two-phase commit) at least $1 ago and neither committed nor rolled back. They
-- hold locks and a snapshot, and no session does.
SELECT to_jsonb(p)
FROM (
    SELECT
        p.gid::text AS gid, p.owner::text AS role,
        extract(epoch FROM clock_timestamp() - p.prepared)::double precision AS open_for
    FROM pg_prepared_xacts AS p
    WHERE p.database = current_database() AND p.prepared <= clock_timestamp() - $1::interval
    ORDER BY p.prepared
    LIMIT 20
) AS p
