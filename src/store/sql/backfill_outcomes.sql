-- What became of jobs that were just given their keys, and who claims the key of those that do not.
SELECT
    j.id, j.kind, j.queue, j.attempt, j.state::text AS state, j.unique_key, j.claims, j.unique_yielded, h.id AS holder
FROM /* schema */job AS j
LEFT JOIN /* schema */job AS h
    ON j.unique_yielded
    AND h.unique_key = j.unique_key
    AND h.claims
    AND (h.unique_until IS NULL OR h.unique_until > clock_timestamp())
WHERE j.id = ANY ($1::uuid[])
ORDER BY j.id
