-- Says how long a queue's final jobs are kept; nulls leave it to the runners.
INSERT INTO /* schema */queue AS q (name, keep_completed, keep_cancelled, keep_discarded)
VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE
SET keep_completed = excluded.keep_completed,
    keep_cancelled = excluded.keep_cancelled,
    keep_discarded = excluded.keep_discarded
RETURNING q.name, q.paused_at, q.max_running
