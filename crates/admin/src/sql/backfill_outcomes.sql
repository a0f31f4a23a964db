-- The outcome of the jobs $1, which were just given their keys, with the holder of the key of each job that does not claim.
/* planned anew */
SELECT
    j.id, j.kind, j.queue, j.attempt, j.state, j.unique_key, j.claims, j.unique_yielded, h.id AS holder
FROM /* schema */job AS j
LEFT JOIN LATERAL (
    -- A probe for each: statistics from before a backfill know of no claims, and a join would read all.
    SELECT c.id
    FROM /* schema */job AS c
    WHERE j.unique_yielded
        AND c.unique_key = j.unique_key
        AND c.claims
        AND (c.unique_until IS NULL OR c.unique_until > clock_timestamp())
    LIMIT 1
) AS h ON true
WHERE j.id = ANY (ARRAY(SELECT i.id::uuid FROM jsonb_array_elements_text($1::jsonb) AS i (id)))
ORDER BY j.id
