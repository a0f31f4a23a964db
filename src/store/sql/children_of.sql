-- Up to $2 jobs that run after the job $1.
SELECT c.id, c.kind, c.queue, c.state, c.condition, c.outcome
FROM /* schema */children_of($1, $2) AS c
ORDER BY c.id
