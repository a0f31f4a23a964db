-- The first ten available jobs of each queue and the first ten of its groups, of those that have been due for a minute,
-- 100 at the most. A job that no runner can read or discard is among them. Reads no value that is stored out of line, and
-- answers with jobs of 32 MB together, as they are stored.
SELECT w.id, w.kind, w.queue
FROM (
    SELECT h.id, h.kind, a.queue, sum(h.bytes) OVER (ORDER BY a.queue, h.place) AS bytes
    FROM (SELECT a.queue COLLATE "C" AS queue FROM /* schema */_available_queues() AS a (queue) LIMIT 1000) AS a
    CROSS JOIN LATERAL (
        SELECT f.id, f.kind, s.bytes, row_number() OVER () AS place
        FROM /* schema */_available_jobs(a.queue, 10) AS f
        CROSS JOIN LATERAL (
            SELECT
                pg_column_size(j.args)::bigint + pg_column_size(j.meta) + pg_column_size(j.errors)
                + coalesce(pg_column_size(j.output), 0) + coalesce(pg_column_size(j.progress), 0) AS bytes
            FROM /* schema */job AS j
            WHERE j.id = f.id
        ) AS s
        WHERE f.scheduled_at < clock_timestamp() - interval '1 min'
    ) AS h
) AS w
WHERE w.bytes <= 33554432
LIMIT 100
