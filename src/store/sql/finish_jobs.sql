-- Ends runs of jobs of remote workers.
SELECT f.id, f.run, f.counted, f.state, f.locked, f.not_stored
FROM /* schema */finish_jobs($1, $2, $3, $4, $5, $6, $7, $8) AS f
