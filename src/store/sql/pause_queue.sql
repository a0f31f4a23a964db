-- Pauses a queue, if it is not paused already.
SELECT q.name, q.paused_at, q.max_running FROM /* schema */pause_queue($1) AS q
