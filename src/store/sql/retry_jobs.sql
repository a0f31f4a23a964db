-- An operator's retry: makes final and waiting jobs available at once.
WITH changed AS MATERIALIZED (
    SELECT c.* FROM /* schema */retry_jobs($1, $7, $8) AS c WHERE /* within */true
)
SELECT c.*, l.* FROM changed AS c CROSS JOIN /* logged */(SELECT) AS l
