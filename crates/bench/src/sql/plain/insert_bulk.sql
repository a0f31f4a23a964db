-- Many jobs in one statement.
INSERT INTO /* schema */plain_job (id, queue, kind, args)
SELECT u.id, 'bench', 'bench', u.args
FROM unnest($1::uuid[], $2::jsonb[]) AS u (id, args)
