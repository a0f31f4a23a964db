-- Inserts any mix of unique and plain jobs, all or nothing: the unique way where that is enough, else one by one. A job that
-- answers several rows is sent once, with the first of them; job_id names it for all.
SELECT
    r.place, r.outcome, r.replaced, clock_timestamp() AS answered_at,
    r.state::text AS new_state, r.created_at AS new_created_at, r.scheduled_at AS new_scheduled_at,
    r.unique_until AS new_unique_until, r.job_id,
    /* columns */j.*
FROM /* schema */_insert_batch(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21
) AS r
LEFT JOIN LATERAL (SELECT (r.job).* WHERE (r.job).id IS NOT NULL) AS j ON true
