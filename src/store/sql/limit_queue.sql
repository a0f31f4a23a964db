-- Limits how many of a queue's jobs run at once, and wakes the runners that sleep: there may be room.
INSERT INTO /* schema */queue AS q (name, max_running)
VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET max_running = excluded.max_running
RETURNING q.name, q.paused_at, q.max_running, /* schema */wake_runners(ARRAY[q.name]) AS woken
