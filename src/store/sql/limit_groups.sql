-- Limits how many jobs of each group of a queue run at once, and wakes the runners that sleep: there may be room.
SELECT FROM /* schema */limit_groups($1, $2)
