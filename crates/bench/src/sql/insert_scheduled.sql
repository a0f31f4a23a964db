-- Many jobs, each with a time before which it must not run.
INSERT INTO /* schema */job (id, kind, queue, args, state, scheduled_at)
SELECT u.id, 'bench', 'bench', u.args, 'scheduled', u.scheduled_at
FROM unnest($1::uuid[], $2::jsonb[], $3::timestamptz[]) AS u (id, args, scheduled_at)
