-- The schedules of the periodic jobs that are not paused.
SELECT p.name, p.schedule, p.time_zone, p.starts_at, p.next_at
FROM /* schema */periodic AS p
WHERE p.paused_at IS NULL
ORDER BY p.name
