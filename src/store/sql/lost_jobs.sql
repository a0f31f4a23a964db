-- The jobs that rescue.sql finds, except those in $2: up to $1.
SELECT l.id
FROM /* schema */_lost_jobs($1, $2) AS l (id)
