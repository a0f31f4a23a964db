-- Many jobs, each with a time before which it must not run.
INSERT INTO /* schema */plain_job (id, queue, kind, args, run_at)
SELECT u.id, 'bench', 'bench', u.args, u.run_at
FROM unnest($1::uuid[], $2::jsonb[], $3::timestamptz[]) AS u (id, args, run_at)
