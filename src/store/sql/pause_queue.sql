-- Pauses a queue, if it is not paused already, and stores why.
SELECT FROM /* schema */pause_queue($1, $2, $3)
