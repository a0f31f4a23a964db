-- Says how long a queue's final jobs are kept; nulls leave it to the runners.
SELECT q.name, q.paused_at, q.max_running FROM /* schema */retain_queue($1, $2, $3, $4) AS q
