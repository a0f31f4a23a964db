-- The job that claims a key now. The predicate beside the key is what lets the partial index serve.
SELECT
    j.id, j.kind, j.queue, j.state::text AS state, j.priority, j.attempt, j.max_attempts,
    j.created_at, j.scheduled_at, j.attempted_at, j.finalized_at,
    j.args, j.meta, j.errors, j.output, j.progress,
    j.unique_key, j.unique_states, j.unique_until, j.claims, j.until_start, j.replaced_by, j.worker
FROM /* schema */job AS j
WHERE j.unique_key = $1
    AND j.claims
    AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
