-- Deletes jobs that no worker has. Whatever they claimed is free.
SELECT c.id FROM /* schema */delete_jobs($1, $2) AS c
