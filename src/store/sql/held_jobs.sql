-- The jobs that claim these keys now: what inserts that ignore duplicates would meet.
SELECT clock_timestamp() AS answered_at, /* columns */j.*
FROM /* schema */held_jobs($1) AS j
