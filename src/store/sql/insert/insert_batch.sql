-- Inserts any mix of unique and plain jobs: the unique way where that is enough, else one by one. Of a new job the caller
-- knows all but what the database decides. A job that answers several rows is sent once, with the first of them; job_id
-- names it for all.
SELECT
    r.place, r.outcome, r.replaced, r.earlier, clock_timestamp() AS answered_at,
    r.state::text AS new_state, r.created_at AS new_created_at, r.scheduled_at AS new_scheduled_at,
    r.unique_until AS new_unique_until, r.id AS job_id,
    /* columns */j.*
FROM /* schema */_insert_batch(/* new_jobs */NULL, $26, $27, $28, $29, $11) AS r
LEFT JOIN LATERAL (SELECT (r.job).* WHERE (r.job).id IS NOT NULL) AS j ON true
