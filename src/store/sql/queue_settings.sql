-- How a queue is set, if anything was.
SELECT
    q.name, q.paused_at, q.max_running, q.max_per_group, q.max_waiting, q.fair,
    extract(epoch FROM q.keep_completed)::double precision AS keep_completed,
    extract(epoch FROM q.keep_cancelled)::double precision AS keep_cancelled,
    extract(epoch FROM q.keep_discarded)::double precision AS keep_discarded
FROM /* schema */queue AS q
WHERE q.name = $1
