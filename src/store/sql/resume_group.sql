-- Ends the hold of a group of a queue, and wakes the runners that sleep. A row if it was held.
SELECT g.queue FROM /* schema */resume_group($1, $2) AS g
