-- One job with a key. A duplicate is dropped.
INSERT INTO /* schema */plain_job (id, queue, kind, args, key)
VALUES ($1, 'bench', 'bench', $2, $3)
ON CONFLICT (key) WHERE key IS NOT NULL AND state IN ('available', 'running') DO NOTHING
