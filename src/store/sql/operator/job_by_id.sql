-- One job.
SELECT /* columns */j.*
FROM /* schema */job AS j
WHERE j.id = $1
