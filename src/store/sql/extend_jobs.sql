-- Reserves running jobs of remote workers anew.
SELECT e.id, e.run, e.held, e.state, e.reserved_until
FROM /* schema */extend_jobs($1, $2, $3) AS e
