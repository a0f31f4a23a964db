-- How many duplicates were suppressed, by kind and key, the latest first.
SELECT s.kind, s.unique_key, s.suppressed, s.first_at, s.last_at, s.last_holder
FROM /* schema */suppressed_duplicate AS s
WHERE ($1::jsonb ->> 'kind' IS NULL OR s.kind = $1::jsonb ->> 'kind')
    AND ($1::jsonb ->> 'unique_key' IS NULL OR s.unique_key = $1::jsonb ->> 'unique_key')
ORDER BY s.last_at DESC, s.unique_key, s.kind
LIMIT ($1::jsonb ->> 'limit')::bigint
