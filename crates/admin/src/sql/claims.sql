/* planned anew */
-- The keys that are claimed, in their order and from the index. Null asks nothing.
SELECT
    j.unique_key, j.id AS holder, j.state AS holder_state, j.kind, j.queue, j.created_at, j.until_start, j.unique_until,
    -- Infinite times cannot be subtracted.
    extract(epoch FROM clock_timestamp() - least(greatest(j.created_at, 'epoch'), clock_timestamp())) AS holder_age,
    /* schema */state_names(j.unique_states) AS claims_in
FROM /* schema */job AS j
WHERE j.claims
    AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
    AND ($1::jsonb ->> 'kind' IS NULL OR j.kind = $1::jsonb ->> 'kind')
    AND ($1::jsonb ->> 'queue' IS NULL OR j.queue = $1::jsonb ->> 'queue')
    AND ($1::jsonb ->> 'after' IS NULL OR j.unique_key > ($1::jsonb ->> 'after') COLLATE "C")
    AND ($1::jsonb ->> 'prefix' IS NULL OR j.unique_key >= ($1::jsonb ->> 'prefix') COLLATE "C")
    AND ($1::jsonb ->> 'from' IS NULL OR j.unique_key >= ($1::jsonb ->> 'from') COLLATE "C")
    AND ($1::jsonb ->> 'beyond' IS NULL OR j.unique_key < ($1::jsonb ->> 'beyond') COLLATE "C")
ORDER BY j.unique_key
LIMIT ($1::jsonb ->> 'limit')::bigint
