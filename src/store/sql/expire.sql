-- Discards up to $1 jobs that have not started by their expires_at, only jobs with the ids in $2. Null: any jobs.
SELECT e.next_in, e.id, e.kind, e.queue, e.attempt, e.error
FROM /* schema */_expire_jobs($1, $2) AS e
