-- Limits how many of a queue's jobs run at once, and wakes the runners that sleep: there may be room.
SELECT q.name, q.paused_at, q.max_running FROM /* schema */limit_queue($1, $2) AS q
