-- Inserts jobs with new ids and different keys, each for itself, in a transaction of its own or alone.
-- Of a new job the caller knows all but what the database decides, so only the row of a holder is
-- sent back whole.
SELECT
    r.input_id, r.outcome, clock_timestamp() AS answered_at, r.state::text AS new_state,
    r.created_at AS new_created_at, r.scheduled_at AS new_scheduled_at, r.unique_until AS new_unique_until,
    /* columns */j.*
FROM /* schema */insert_each(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, patience => $17, folded => $18
) AS r
LEFT JOIN LATERAL (SELECT (r.holder).* WHERE r.outcome = 'duplicate') AS j ON true
