-- How many duplicates were suppressed, by kind and key, the latest first; of kind $1 and key $2, of
-- which null asks nothing.
SELECT s.kind, s.unique_key, s.suppressed, s.first_at, s.last_at, s.last_holder
FROM /* schema */suppressed_duplicate AS s
WHERE ($1::text IS NULL OR s.kind = $1) AND ($2::text IS NULL OR s.unique_key = $2)
ORDER BY s.last_at DESC, s.unique_key, s.kind
LIMIT $3
