-- The ids in $1, and those of all jobs that run after them, directly or not.
SELECT d.id
FROM /* schema */descendants_of($1) AS d (id)
ORDER BY d.id
