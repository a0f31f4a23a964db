-- Up to $1 jobs that expire.sql would discard, without the jobs in $2.
SELECT e.id
FROM /* schema */_expired_jobs($1, $2) AS e (id)
