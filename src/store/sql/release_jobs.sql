-- Lets pending jobs go: available, or scheduled where their time has not come.
WITH changed AS MATERIALIZED (
    SELECT c.*, false AS refused FROM /* schema */release_jobs($1, $7) AS c WHERE /* within */true
)
SELECT c.*, l.* FROM changed AS c CROSS JOIN /* logged */(SELECT) AS l
