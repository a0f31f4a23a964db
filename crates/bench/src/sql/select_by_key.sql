-- The job that claims a key: the least that an insert must do to find that it is a duplicate.
SELECT id, kind, queue, state::text, created_at, args
FROM /* schema */job
WHERE unique_key = $1 AND claims
