-- Counts the jobs of a run that are not final yet.
SELECT count(*) AS unfinished
FROM uniqueue_demo.file AS f
JOIN /* schema */job AS j ON j.id = f.job_id
WHERE f.run_id = $1 AND j.finalized_at IS NULL
