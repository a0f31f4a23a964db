-- Lets pending jobs go: available, or scheduled where their time has not come.
SELECT
    c.id, c.kind, c.queue, c.attempt, c.state,
    -- Asked when all are changed: what the commit waits for is not what patience is for.
    CASE WHEN $3::text IS NOT NULL THEN set_config('lock_timeout', '0', true) END AS patience
FROM /* schema */release_jobs($1, $2) AS c
-- Asked once, before the first row: how long to wait for a row that somebody has locked.
WHERE (SELECT set_config('lock_timeout', coalesce($3, current_setting('lock_timeout')), true)) IS NOT NULL
