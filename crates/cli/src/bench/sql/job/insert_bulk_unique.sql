-- The same with unique keys, claimed while a job is active. Duplicates are left out, and not answered.
INSERT INTO /* schema */job (id, kind, queue, priority, args, unique_key, unique_states)
SELECT u.id, 'bench', 'bench', $3, u.args, u.unique_key, 241
FROM unnest($1::uuid[], $2::jsonb[], $4::text[]) AS u (id, args, unique_key)
ON CONFLICT (unique_key) WHERE claims DO NOTHING
