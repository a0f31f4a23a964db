-- The end of jobs whose rows are kept.
UPDATE /* schema */plain_job
SET state = 'completed'
WHERE id = ANY ($1)
