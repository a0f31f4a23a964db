-- The end of jobs whose rows are kept.
UPDATE /* schema */job
SET state = 'completed', finalized_at = now()
WHERE id = ANY ($1)
