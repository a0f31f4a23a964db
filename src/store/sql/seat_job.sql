-- Puts a job into the hands of a worker, at a given attempt.
UPDATE /* schema */job AS j
SET state = 'running',
    attempt = $2,
    max_attempts = greatest(j.max_attempts, $2),
    attempted_at = clock_timestamp(),
    worker = $3
WHERE j.id = $1
RETURNING
    /* columns */j.*
