-- One plain job, and a notification when it commits.
INSERT INTO /* schema */job (id, kind, queue, priority, args)
VALUES ($1, 'bench', 'bench', $3, $2)
RETURNING pg_notify('uniqueue_bench', '')
