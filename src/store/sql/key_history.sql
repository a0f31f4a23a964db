-- The jobs that have the key $1, the youngest first: the one that claims it, and those among the $2 last
-- jobs of all. A key that is not claimed is in no index.
WITH recent AS MATERIALIZED (
    SELECT r.id
    FROM (SELECT j.id, j.unique_key FROM /* schema */job AS j ORDER BY j.id DESC LIMIT $2) AS r
    WHERE r.unique_key = $1
    ORDER BY r.id DESC
    LIMIT $3
)
SELECT
    j.id, j.kind, j.queue, j.state::text AS state, j.priority, j.attempt, j.max_attempts,
    j.created_at, j.scheduled_at, j.attempted_at, j.finalized_at,
    j.args, j.meta, j.errors, j.output, j.progress,
    j.unique_key, j.unique_states, j.unique_until, j.claims, j.until_start, j.replaced_by, j.worker
FROM /* schema */job AS j
WHERE j.id = ANY (ARRAY(
    SELECT r.id FROM recent AS r
    UNION
    SELECT h.id FROM /* schema */job AS h WHERE h.unique_key = $1 AND h.claims
))
ORDER BY j.id DESC
