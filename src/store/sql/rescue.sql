-- Takes up to $1 jobs from runners whose lease ran out, and from remote workers whose reservation did, of those in $2; null:
-- of all. $3 is the number of crashes in a row that discards a job.
SELECT r.next_in, r.id, r.kind, r.queue, r.attempt, r.error, r.state
FROM /* schema */_rescue_jobs($1, $2, $3) AS r
