-- The outcome of jobs that were just given their keys, with the holder of the key of each job that does not claim.
SELECT
    jsonb_build_object(
        'id', j.id, 'kind', j.kind, 'queue', j.queue, 'attempt', j.attempt, 'state', j.state, 'unique_key', j.unique_key,
        'claims', j.claims, 'unique_yielded', j.unique_yielded, 'holder', h.id
    ) AS job
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
WHERE j.id = ANY ($1::uuid[])
ORDER BY j.id
