-- The jobs that prune.sql reads: those from $1 up to $2, at most $3, in the order of ids.
SELECT j.id
FROM /* schema */job AS j
WHERE j.id >= $1 AND j.id <= $2
ORDER BY j.id
LIMIT $3
