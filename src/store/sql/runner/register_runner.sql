-- Enters a runner, alive for one lease term from now, with what it says of itself. Answers which of its queues say for how long
-- completed jobs are kept: not at all, or for a while.
INSERT INTO /* schema */runner AS r (
    id, name, queues, leased_until, heartbeat_at, kinds, keep_completed, keep_cancelled, keep_discarded, slots, periodic,
    registered, version, host, knows_groups
)
VALUES (
    $1, $2, $3, clock_timestamp() + $4::interval, clock_timestamp(), $5, $6, $7, $8, $9, $10, $11, $12, $13, true)
RETURNING
    ARRAY(
        SELECT q.name FROM /* schema */queue AS q WHERE q.name = ANY (r.queues) AND q.keep_completed = interval '0'
    ) AS deleting,
    ARRAY(
        SELECT q.name FROM /* schema */queue AS q WHERE q.name = ANY (r.queues) AND q.keep_completed > interval '0'
    ) AS keeping
