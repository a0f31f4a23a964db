-- The ids in $1, and the ids of all jobs that run after these jobs, directly or through other jobs.
SELECT d.id
FROM /* schema */descendants_of($1) AS d (id)
ORDER BY d.id
