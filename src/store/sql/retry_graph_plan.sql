-- The jobs that a retry of the graph of job $1 would change, with their new states.
SELECT c.id, c.state
FROM /* schema */retry_graph($1, true) AS c
ORDER BY c.id
