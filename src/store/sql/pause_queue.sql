-- Pauses a queue, if it is not paused already.
INSERT INTO /* schema */queue AS q (name, paused_at)
VALUES ($1, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(q.paused_at, excluded.paused_at)
RETURNING q.name, q.paused_at, q.max_running
