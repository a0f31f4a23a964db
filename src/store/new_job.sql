(
    1, $1, $23, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $22, jsonb_populate_record(NULL::/* schema */update_terms, $24), $17, $18, $19,
    NULL, $20, $21
)::/* schema */new_job
