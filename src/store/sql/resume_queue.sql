-- Lets a paused queue go on, and wakes the runners that sleep. No row: it was not paused.
SELECT q.name, q.paused_at, q.max_running FROM /* schema */resume_queue($1) AS q
