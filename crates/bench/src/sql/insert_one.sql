-- One plain job.
INSERT INTO /* schema */job (id, kind, queue, priority, args)
VALUES ($1, 'bench', 'bench', $3, $2)
