-- Inserts one job, whatever becomes of a duplicate, without arrays. Answers with the row of the new job or of the holder.
SELECT
    NULL::integer AS place, r.outcome, r.replaced, clock_timestamp() AS answered_at,
    NULL::text AS new_state, NULL::timestamptz AS new_created_at, NULL::timestamptz AS new_scheduled_at,
    NULL::timestamptz AS new_unique_until,
    /* columns */j.*
FROM /* schema */_insert_one(
    (
        1, $1, true, $3, $4, $2, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $20, $17, $18, $19
    )::/* schema */new_job,
    $21
) AS r
LEFT JOIN LATERAL (SELECT (r.answered).*) AS j ON true
