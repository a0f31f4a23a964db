-- An operator's retry: makes final and waiting jobs available at once.
SELECT
    c.id, c.kind, c.queue, c.attempt, c.state,
    -- Asked when all are changed: what the commit waits for is not what patience is for.
    CASE WHEN $3::text IS NOT NULL THEN set_config('lock_timeout', '0', true) END AS patience
FROM /* schema */retry_jobs($1, $2) AS c
-- Asked once, before the first row: how long to wait for a row that somebody has locked.
WHERE (SELECT set_config('lock_timeout', coalesce($3, current_setting('lock_timeout')), true)) IS NOT NULL
