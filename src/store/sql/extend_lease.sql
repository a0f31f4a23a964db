-- Extends a runner's lease. No row: the lease is lost, and its jobs may be another's already.
UPDATE /* schema */runner AS r
SET leased_until = clock_timestamp() + $2::interval
WHERE r.id = $1 AND r.leased_until > clock_timestamp()
