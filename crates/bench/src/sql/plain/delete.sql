-- The end of jobs whose rows are not kept.
DELETE FROM /* schema */plain_job
WHERE id = ANY ($1)
