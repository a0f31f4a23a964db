-- Lets a paused queue go on, and wakes the runners that sleep.
UPDATE /* schema */queue AS q
SET paused_at = NULL
WHERE q.name = $1 AND q.paused_at IS NOT NULL
RETURNING q.name, q.paused_at, q.max_running, /* schema */wake_runners(ARRAY[q.name]) AS woken
