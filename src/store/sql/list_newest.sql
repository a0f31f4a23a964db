-- A page of the jobs that match a filter, newest ids first, from one id on. $1 to $17 are the filter.
SELECT
    j.id, j.kind, j.queue, j.state::text AS state, j.priority, j.attempt, j.max_attempts,
    j.created_at, j.scheduled_at, j.attempted_at, j.finalized_at,
    j.args, j.meta, j.errors, j.output, j.progress,
    j.unique_key, j.unique_states, j.unique_until, j.claims, j.until_start, j.replaced_by, j.worker
FROM /* schema */job AS j
WHERE /* matching */true AND j.id < $18
ORDER BY j.id DESC
LIMIT $19
