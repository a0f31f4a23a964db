-- Inserts any mix of unique and plain jobs, all or nothing. The args of a new job are the caller's
-- own, so only a holder's are sent back.
SELECT
    r.input_id, r.outcome, r.replaced,
    j.id, j.kind, j.queue, j.state::text AS state, j.priority, j.attempt, j.max_attempts,
    j.created_at, j.scheduled_at, j.attempted_at, j.finalized_at,
    CASE WHEN j.id <> r.input_id THEN j.args END AS args,
    clock_timestamp() AS answered_at,
    j.meta, j.errors, j.output,
    j.unique_key, j.unique_states, j.unique_until, j.claims, j.until_start, j.replaced_by, j.worker
FROM /* schema */insert_jobs(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19
) AS r
CROSS JOIN LATERAL (SELECT (r.job).*) AS j
