-- Cancels jobs that are not final, and notifies the runners of those that run.
WITH changed AS MATERIALIZED (
    SELECT c.*, false AS refused FROM /* schema */cancel_jobs($1, $7) AS c WHERE /* within */true
)
SELECT c.*, l.* FROM changed AS c CROSS JOIN /* logged */(SELECT) AS l
