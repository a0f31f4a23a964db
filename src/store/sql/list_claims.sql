-- The keys that are claimed, in their order and from the index, of holders of kind $1 in queue $2; beyond
-- key $3, from $4 on and before $5. Null asks nothing.
SELECT
    j.unique_key, j.id, j.kind, j.queue, j.state::text AS state, j.created_at, j.unique_states, j.until_start,
    j.unique_until, clock_timestamp() AS answered_at
FROM /* schema */job AS j
WHERE j.claims
    AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
    AND ($1::text IS NULL OR j.kind = $1)
    AND ($2::text IS NULL OR j.queue = $2)
    AND ($3::text IS NULL OR j.unique_key > $3 COLLATE "C")
    AND ($4::text IS NULL OR j.unique_key >= $4 COLLATE "C")
    AND ($5::text IS NULL OR j.unique_key < $5 COLLATE "C")
ORDER BY j.unique_key
LIMIT $6
