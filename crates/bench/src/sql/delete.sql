-- The end of jobs whose rows are not kept.
DELETE FROM /* schema */job
WHERE id = ANY ($1)
