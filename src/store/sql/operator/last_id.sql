-- The last id there is, where a walk over the jobs that are there now ends.
SELECT j.id
FROM /* schema */job AS j
ORDER BY j.id DESC
LIMIT 1
