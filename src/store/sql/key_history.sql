-- The jobs that have the key $1, the youngest first: the one that claims it, and those among the $2 last
-- jobs of all. A key that is not claimed is in no index.
WITH recent AS MATERIALIZED (
    SELECT r.id
    FROM (SELECT j.id, j.unique_key FROM /* schema */job AS j ORDER BY j.id DESC LIMIT $2) AS r
    WHERE r.unique_key = $1
    ORDER BY r.id DESC
    LIMIT $3
)
SELECT
    /* columns */j.*
FROM /* schema */job AS j
WHERE j.id = ANY (ARRAY(
    SELECT r.id FROM recent AS r
    UNION
    SELECT h.id FROM /* schema */job AS h WHERE h.unique_key = $1 AND h.claims
))
ORDER BY j.id DESC
