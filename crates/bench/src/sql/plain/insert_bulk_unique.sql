-- Many jobs with keys in one statement. Duplicates are dropped.
INSERT INTO /* schema */plain_job (id, queue, kind, args, key)
SELECT u.id, 'bench', 'bench', u.args, u.key
FROM unnest($1::uuid[], $2::jsonb[], $3::text[]) AS u (id, args, key)
ON CONFLICT (key) WHERE key IS NOT NULL AND state IN ('available', 'running') DO NOTHING
