-- Inserts several jobs with keys that are probably free, all or none, and answers with their time, or null.
SELECT /* schema */insert_new($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) AS created_at
