-- Cancels jobs that are not final, and tells the runners of those that run.
SELECT c.id, c.kind, c.queue, c.attempt, c.state
FROM /* schema */cancel_jobs($1, $2) AS c
