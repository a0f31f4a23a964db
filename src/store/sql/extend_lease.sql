-- Extends a runner's lease. No row: the lease is lost, and its jobs may be another's already. Answers
-- as register_runner.sql does, so that a change of settings is known after a heartbeat.
UPDATE /* schema */runner AS r
SET leased_until = clock_timestamp() + $2::interval, heartbeat_at = clock_timestamp()
WHERE r.id = $1 AND r.leased_until > clock_timestamp()
RETURNING
    ARRAY(
        SELECT q.name FROM /* schema */queue AS q WHERE q.name = ANY (r.queues) AND q.keep_completed = interval '0'
    ) AS deleting,
    ARRAY(
        SELECT q.name FROM /* schema */queue AS q WHERE q.name = ANY (r.queues) AND q.keep_completed > interval '0'
    ) AS keeping
