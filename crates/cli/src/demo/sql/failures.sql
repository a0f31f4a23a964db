-- The discarded jobs of a run, each with its last error.
SELECT f.path, j.attempt::integer AS attempts, j.errors -> -1 ->> 'error' AS error
FROM uniqueue_demo.file AS f
JOIN /* schema */job AS j ON j.id = f.job_id
WHERE f.run_id = $1 AND j.state = 'discarded'
ORDER BY f.path
