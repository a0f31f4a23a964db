-- Deletes jobs that no worker has. Whatever they claimed is free.
SELECT c.id
FROM /* schema */delete_jobs($1, $2) AS c
-- Evaluated once, before the first row: the longest wait for a row that another transaction has locked.
WHERE (SELECT set_config('lock_timeout', coalesce($3, current_setting('lock_timeout')), true)) IS NOT NULL
