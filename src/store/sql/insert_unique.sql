-- Inserts jobs with new ids and different keys, each for itself: the unique way. Of a new job the caller knows all but
-- what the database decides, so only the row of a holder is sent back whole.
SELECT
    r.place, r.outcome, r.replaced, clock_timestamp() AS answered_at,
    r.state::text AS new_state, r.created_at AS new_created_at, r.scheduled_at AS new_scheduled_at,
    r.unique_until AS new_unique_until,
    /* columns */j.*
FROM /* schema */_insert_unique(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, folded => $17, max_wait => $18, groups => $19
) AS r
LEFT JOIN LATERAL (SELECT (r.job).* WHERE r.outcome = 'duplicate') AS j ON true
