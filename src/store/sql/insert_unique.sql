-- Inserts any mix of unique and plain jobs, all or nothing. Of a new job the caller knows all but
-- what the database decides, so only the row of a holder, and what may have been there, is sent
-- back whole.
SELECT
    r.input_id, r.outcome, r.replaced, clock_timestamp() AS answered_at,
    (r.job).state::text AS state, (r.job).created_at, (r.job).scheduled_at, (r.job).unique_until, (r.job).claims,
    j.id, j.kind, j.queue, j.priority, j.attempt, j.max_attempts, j.attempted_at, j.finalized_at,
    j.args, j.meta, j.errors, j.output, j.progress,
    j.unique_key, j.unique_states, j.until_start, j.replaced_by, j.worker
FROM /* schema */insert_jobs(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20
) AS r
LEFT JOIN LATERAL (SELECT (r.job).* WHERE r.outcome <> 'inserted' OR $18) AS j ON true
