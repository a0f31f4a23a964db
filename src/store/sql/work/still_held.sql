-- Which of these runs are still their worker's: those that run, and those that completed their job in a transaction of
-- their own. Jobs that are gone are not in the answer. The ids come sorted, for the reason that V27__finish.sql gives.
SELECT
    j.id,
    j.state IN ('running', 'completed')
        AND (j.worker, j.run)
            IS NOT DISTINCT FROM ($1::uuid, ($3::integer[])[width_bucket(j.id, $2::uuid[])]) AS is_held
FROM /* schema */job AS j
WHERE j.id = ANY ($2::uuid[])
