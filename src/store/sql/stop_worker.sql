-- Deletes the rows of a remote worker that have no running job.
SELECT /* schema */stop_worker($1) AS removed
