-- Extends a runner's lease, and stores what it has worked off by now. No row: the lease is lost, and its jobs may be another's already. Answers
-- as register_runner.sql does, so that a change of settings is known after a heartbeat.
UPDATE /* schema */runner AS r
SET leased_until = clock_timestamp() + $2::interval,
    heartbeat_at = clock_timestamp(),
    completed = $3,
    failed = $4,
    counted_at = clock_timestamp(),
    -- Not negative, where the clock went back.
    lately = greatest(clock_timestamp() - coalesce(r.counted_at, r.started_at), interval '0'),
    lately_completed = $3 - r.completed,
    lately_failed = $4 - r.failed
WHERE r.id = $1 AND r.leased_until > clock_timestamp()
RETURNING
    ARRAY(
        SELECT q.name FROM /* schema */queue AS q WHERE q.name = ANY (r.queues) AND q.keep_completed = interval '0'
    ) AS deleting,
    ARRAY(
        SELECT q.name FROM /* schema */queue AS q WHERE q.name = ANY (r.queues) AND q.keep_completed > interval '0'
    ) AS keeping
