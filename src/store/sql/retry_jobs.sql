-- An operator's retry: makes final and waiting jobs available at once.
SELECT c.id, c.kind, c.queue, c.attempt, c.state
FROM /* schema */retry_jobs($1, $2) AS c
