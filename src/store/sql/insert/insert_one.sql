-- Inserts one job, whatever becomes of a duplicate, without arrays. Answers with the row of the holder, where it is no new
-- job.
SELECT
    NULL::integer AS place, r.outcome, r.replaced, NULL::integer AS earlier, clock_timestamp() AS answered_at,
    r.state::text AS new_state, r.created_at AS new_created_at, r.scheduled_at AS new_scheduled_at,
    r.unique_until AS new_unique_until,
    /* columns */j.*
FROM /* schema */_insert_one(/* new_job */NULL, $25) AS r
LEFT JOIN LATERAL (SELECT (r.job).*) AS j ON true
