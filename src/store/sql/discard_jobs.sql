-- Discards jobs that are not final, and notifies the runners of running jobs.
SELECT
    c.id, c.kind, c.queue, c.attempt, c.state,
    -- Evaluated after all rows are changed: the limit is not for the waits of the COMMIT.
    CASE WHEN $3::text IS NOT NULL THEN set_config('lock_timeout', '0', true) END AS unlimited
FROM /* schema */discard_jobs($1, $2) AS c
-- Evaluated once, before the first row: the longest wait for a row that another transaction has locked.
WHERE (SELECT set_config('lock_timeout', coalesce($3, current_setting('lock_timeout')), true)) IS NOT NULL
