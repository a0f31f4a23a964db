-- Gives waiting jobs another time. Those that are due become available at once, the others wait.
SELECT c.id, c.kind, c.queue, c.attempt, c.state
FROM /* schema */reschedule_jobs($1, $3, $2) AS c
-- Asked once, before the first row: how long to wait for a row that somebody has locked.
WHERE (SELECT set_config('lock_timeout', coalesce($4, current_setting('lock_timeout')), true)) IS NOT NULL
