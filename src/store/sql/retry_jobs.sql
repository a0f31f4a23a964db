-- An operator's retry: makes final and waiting jobs available at once.
SELECT
    c.id, c.kind, c.queue, c.attempt, c.state, c.refused, c.holder,
    -- Evaluated after all rows are changed: the limit is not for the waits of the COMMIT.
    CASE WHEN $4::text IS NOT NULL THEN set_config('lock_timeout', '0', true) END AS unlimited
FROM /* schema */retry_jobs($1, $2, $3) AS c
-- Evaluated once, before the first row: the longest wait for a row that another transaction has locked.
WHERE (SELECT set_config('lock_timeout', coalesce($4, current_setting('lock_timeout')), true)) IS NOT NULL
