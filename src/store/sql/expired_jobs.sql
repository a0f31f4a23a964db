-- The jobs that expire.sql finds, except those in $2: up to $1.
SELECT e.id
FROM /* schema */_expired_jobs($1, $2) AS e (id)
