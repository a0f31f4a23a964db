-- The periodic jobs that are not paused, as due_periodic.sql returns those that are due.
SELECT
    p.name, p.schedule, p.time_zone, p.catch_up, p.starts_at, p.next_at, false AS is_ahead, clock_timestamp() AS asked_at
FROM /* schema */periodic AS p
WHERE p.paused_at IS NULL
ORDER BY p.name
