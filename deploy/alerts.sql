-- Each query returns rows only if there is a problem. Adapt the limits. `uniqueue doctor` asks these questions and more.

-- Jobs have been waiting for long: there are too few runners, or jobs take longer than before
SELECT queue, oldest_available_age, available FROM uniqueue.queue_status
WHERE status <> 'paused' AND oldest_available_age > interval '5 minutes';

-- Jobs without a live runner
SELECT queue, available, scheduled FROM uniqueue.queue_status WHERE status = 'no runner';

-- Forgotten pauses
SELECT queue, paused_at, available FROM uniqueue.queue_status
WHERE available > 0 AND paused_at < now() - interval '1 hour';

-- Jobs that should have moved and have not, with the reason
SELECT code, count(*), max(stuck_for) FROM uniqueue.stuck_job WHERE code <> 'queue_paused' GROUP BY code;

-- Kinds whose jobs are being discarded
SELECT kind, discarded, last_error FROM uniqueue.failing_kind
WHERE discarded >= 100 AND last_failed_at > now() - interval '10 minutes';

-- Jobs that expire before they start: there are too few runners, or a queue is paused
SELECT queue, kind, count(*) FROM uniqueue.expired_job
WHERE discarded_at > now() - interval '10 minutes' GROUP BY queue, kind HAVING count(*) >= 100;

-- Inserts that wait for an open transaction
SELECT waiting_for, blocker_pid, blocker_application, blocker_open_for FROM uniqueue.waiting_insert
WHERE waiting_for > interval '5 s';

-- An old snapshot prevents vacuum from removing dead rows, which makes fetches slower every minute
SELECT oldest_snapshot_pid, oldest_snapshot_name, oldest_snapshot_age FROM uniqueue.table_health
WHERE table_name = 'job' AND oldest_snapshot_age > interval '10 minutes';

-- Autovacuum is off or does not keep up
SELECT table_name, dead_rows, last_vacuum_at FROM uniqueue.table_health
WHERE NOT autovacuum_is_on OR dead_rows > 5 * vacuum_at_dead_rows + 10000;

-- Retention does not keep up. If a runner keeps jobs longer than the default, set the queue's retention (set_queue)
SELECT queue, state, overdue, overdue_by FROM uniqueue.retention WHERE overdue_by > interval '1 hour';

-- Maintenance services without a runner
SELECT s.service, m.leased_until
FROM (VALUES ('expirer'), ('periodic'), ('promoter'), ('pruner'), ('releaser'), ('rescuer')) AS s (service)
LEFT JOIN uniqueue.maintenance AS m USING (service)
WHERE coalesce(m.leased_until, '-infinity') < now() - interval '5 minutes';

-- Periodic jobs that cannot run or are late
SELECT name, problem, next_at FROM uniqueue.periodic
WHERE paused_at IS NULL
    AND (problem IS NOT NULL OR coalesce(next_at, greatest(starts_at, created_at)) < now() - interval '5 minutes');

-- The server's notification queue fills: a listening session does not read. From 0.9 on no notifications are sent,
-- and runners poll every poll_interval
SELECT pg_notification_queue_usage() AS part WHERE pg_notification_queue_usage() > 0.1;
