-- Gives waiting jobs another priority.
SELECT c.id
FROM /* schema */set_priority($1, $3::smallint, $2) AS c
-- Evaluated once, before the first row: the longest wait for a row that another transaction has locked.
WHERE (SELECT set_config('lock_timeout', coalesce($4, current_setting('lock_timeout')), true)) IS NOT NULL
