-- How a queue is set, if anything was.
SELECT q.name, q.paused_at, q.max_running
FROM /* schema */queue AS q
WHERE q.name = $1
