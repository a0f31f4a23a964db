-- Gives waiting jobs another time. Those that are due become available at once, the others wait.
SELECT c.id FROM /* schema */reschedule_jobs($1, $3, $2) AS c
