-- Pauses a queue, if it is not paused already.
SELECT FROM /* schema */pause_queue($1)
