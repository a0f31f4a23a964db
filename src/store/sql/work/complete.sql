-- Completes runs that have nothing to store but that, which is how most runs end. Each counts only if the job is still in
-- the hands of the worker $1 for this run: $3 and $4 are ids, sorted, and run numbers. $2 is how long to wait for a row that
-- is locked. Null: as the connection's lock_timeout has it.
SELECT c.state, c.ended AS ids, c.discarded
FROM /* schema */_complete_runs($1, $2, $3, $4) AS c
