-- One job with a unique key.
INSERT INTO /* schema */job (id, kind, queue, args, unique_key, unique_states, priority)
VALUES ($1, 'bench', 'bench', $2, $3, 241, $4)
ON CONFLICT (unique_key) WHERE claims DO NOTHING
