-- One job.
INSERT INTO /* schema */plain_job (id, queue, kind, args)
VALUES ($1, 'bench', 'bench', $2)
