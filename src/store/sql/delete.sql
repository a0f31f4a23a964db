-- Completes runs of jobs whose rows are not kept: the rows go at once. The parameters are those of
-- complete.sql, and the fence that of _complete_runs. Answers with the jobs that are gone. The other runs were stale.
WITH deleted AS (
    DELETE FROM /* schema */job AS j
    WHERE j.id = ANY ($3::uuid[])
        AND (j.state, j.worker, j.run)
            IS NOT DISTINCT FROM ('running', $1::uuid, ($4::integer[])[width_bucket(j.id, $3::uuid[])])
        AND (SELECT set_config('lock_timeout', coalesce($2, current_setting('lock_timeout')), true)) IS NOT NULL
    RETURNING j.id
)
SELECT 'completed' AS state, coalesce(array_agg(d.id), '{}') AS ids, NULL::uuid[] AS discarded
FROM deleted AS d
