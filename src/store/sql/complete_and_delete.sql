-- Completes attempts of jobs that are not kept when they are completed: the row goes at once. The
-- fence, the places, the patience and the answer are those of complete.sql, which says why.
WITH gone AS (
    DELETE FROM /* schema */job AS j
    WHERE j.id = ANY ($2::uuid[])
        AND (j.state, j.worker, j.run)
            IS NOT DISTINCT FROM (
                'running', $1::uuid, coalesce($3::integer, ($4::integer[])[width_bucket(j.id, $2::uuid[])])
            )
        AND (SELECT set_config('lock_timeout', coalesce($5, current_setting('lock_timeout')), true)) IS NOT NULL
    RETURNING j.id
)
SELECT CASE WHEN count(*) < cardinality($2::uuid[]) THEN coalesce(array_agg(g.id), '{}') END AS counted
FROM gone AS g
