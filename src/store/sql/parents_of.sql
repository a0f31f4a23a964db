-- The jobs that the job $1 runs after.
SELECT p.id, p.kind, p.state, p.condition, p.outcome, p.output
FROM /* schema */parents_of($1) AS p
ORDER BY p.id
