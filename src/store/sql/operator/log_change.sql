-- Logs a change, or adds to its number of jobs.
SELECT /* schema */_log_change($1, $2, $3, $4, $5)
