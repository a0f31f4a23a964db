-- Inserts jobs and the edges between them. The jobs are inserted as in insert_batch.sql. $26 to $28 are the one_by_one,
-- the max_wait and the folded of _insert_batch, $29 to $32 the edges.
SELECT
    r.place, r.outcome, r.replaced, r.earlier, clock_timestamp() AS answered_at,
    r.state::text AS new_state, r.created_at AS new_created_at, r.scheduled_at AS new_scheduled_at,
    r.unique_until AS new_unique_until, r.id AS job_id,
    /* columns */j.*
FROM /* schema */_insert_graph(/* new_jobs */NULL, $26, $27, $28, $29, $30, $31, $32) AS r
LEFT JOIN LATERAL (SELECT (r.job).* WHERE (r.job).id IS NOT NULL) AS j ON true
