-- Deletes jobs that no worker has. Whatever they claimed is free.
WITH changed AS MATERIALIZED (
    SELECT c.*, false AS refused FROM /* schema */delete_jobs($1, $7) AS c WHERE /* within */true
)
SELECT c.*, l.* FROM changed AS c CROSS JOIN /* logged */(SELECT) AS l
