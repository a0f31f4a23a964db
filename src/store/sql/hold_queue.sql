-- Holds a queue for so long.
SELECT FROM /* schema */hold_queue($1, $2)
