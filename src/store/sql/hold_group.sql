-- Holds a group of a queue for so long.
SELECT FROM /* schema */hold_group($1, $2, $3)
