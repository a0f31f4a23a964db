-- Plain jobs, a thousand at a time.
INSERT INTO /* schema */job (id, kind, queue, priority, args)
SELECT u.id, 'bench', 'bench', $3, u.args
FROM unnest($1::uuid[], $2::jsonb[]) AS u (id, args)
