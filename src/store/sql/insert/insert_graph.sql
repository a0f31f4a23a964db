-- Inserts jobs and the edges between them. The jobs are inserted as in insert_batch.sql. $26 and $27 are the one_by_one and
-- the max_wait of _insert_batch, $28 to $31 the edges.
SELECT
    r.place, r.outcome, r.replaced, r.earlier, clock_timestamp() AS answered_at,
    r.state::text AS new_state, r.created_at AS new_created_at, r.scheduled_at AS new_scheduled_at,
    r.unique_until AS new_unique_until, r.id AS job_id,
    /* columns */j.*
FROM /* schema */_insert_graph(/* new_jobs */NULL, $26, $27, $28, $29, $30, $31) AS r
LEFT JOIN LATERAL (SELECT (r.job).* WHERE (r.job).id IS NOT NULL) AS j ON true
