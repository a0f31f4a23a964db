-- Limits how many of a queue's jobs run at once, and wakes the runners that sleep: there may be room.
SELECT FROM /* schema */limit_queue($1, $2)
