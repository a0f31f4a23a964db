-- Inserts any mix of unique and plain jobs, all or nothing. Of a new job the caller knows all but
-- what the database decides, so only the row of a holder, and what may have been there, is sent
-- back whole.
SELECT
    r.input_id, r.outcome, r.replaced, clock_timestamp() AS answered_at,
    (r.job).state::text AS new_state, (r.job).created_at AS new_created_at, (r.job).scheduled_at AS new_scheduled_at,
    (r.job).unique_until AS new_unique_until,
    /* columns */j.*
FROM /* schema */insert_jobs(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20
) AS r
LEFT JOIN LATERAL (SELECT (r.job).* WHERE r.outcome <> 'inserted' OR $18) AS j ON true
