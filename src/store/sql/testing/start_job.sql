-- Starts a job for a worker, at a given attempt. As in a fetch, a claim that lasts until the start ends here.
UPDATE /* schema */job AS j
SET state = 'running',
    attempt = $2::smallint,
    max_attempts = greatest(j.max_attempts, $2::smallint),
    attempted_at = clock_timestamp(),
    worker = $3,
    reserved_until = NULL,
    run = j.run % 2147483647 + 1,
    began = CASE WHEN j.in_order THEN coalesce(j.began, j.run % 2147483647 + 1) END,
    unique_states = CASE WHEN j.until_start AND j.unique_states > 0 THEN 0 ELSE j.unique_states END
WHERE j.id = $1
RETURNING
    /* columns */j.*
