-- One job with a unique key.
INSERT INTO /* schema */job (id, kind, queue, priority, args, unique_key, unique_states)
VALUES ($1, 'bench', 'bench', $3, $2, $4, 241)
ON CONFLICT (unique_key) WHERE claims DO NOTHING
