-- Gives waiting jobs another time. Those that are due become available at once, the others wait.
WITH changed AS MATERIALIZED (
    SELECT c.*, false AS refused FROM /* schema */reschedule_jobs($1, $8, $7) AS c WHERE /* within */true
)
SELECT c.*, l.* FROM changed AS c CROSS JOIN /* logged */(SELECT) AS l
