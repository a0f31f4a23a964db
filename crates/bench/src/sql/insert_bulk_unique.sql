-- The same with unique keys, claimed while a job is active. Duplicates are dropped, and no holder is returned.
INSERT INTO /* schema */job (id, kind, queue, args, unique_key, unique_states, priority)
SELECT u.id, 'bench', 'bench', u.args, u.unique_key, 241, $4
FROM unnest($1::uuid[], $2::jsonb[], $3::text[]) AS u (id, args, unique_key)
ON CONFLICT (unique_key) WHERE claims DO NOTHING
