-- Runs the service $1 once, with the settings $2. $3 is the state that the last run returned. next_in: the milliseconds until the next run.
SELECT r.changed, r.next_in, r.state, r.jobs, r.warnings
FROM /* schema */_run_service($1, $2, $3) AS r
