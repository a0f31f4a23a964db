-- The queue's tables, the largest first: dead rows, and whether vacuum comes.
SELECT to_jsonb(t)
FROM (
    SELECT
        h.table_name, h.live_rows, h.dead_rows, h.dead_part, h.total_bytes,
        h.autovacuum_is_on, h.vacuum_at_dead_rows, h.vacuum_is_due, h.is_being_vacuumed,
        extract(epoch FROM clock_timestamp() - h.last_vacuum_at)::double precision AS vacuumed_ago
    FROM /* schema */table_health AS h
) AS t
