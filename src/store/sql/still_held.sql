-- Which of these runs nobody took from their worker: those that run, and those that completed
-- their job in a transaction of their own. Jobs that are not there any more are not answered for. The
-- ids come sorted, for the reason that complete.sql gives.
SELECT
    j.id,
    j.state IN ('running', 'completed')
        AND (j.worker, j.run)
            IS NOT DISTINCT FROM ($1::uuid, ($3::integer[])[width_bucket(j.id, $2::uuid[])]) AS is_held
FROM /* schema */job AS j
WHERE j.id = ANY ($2::uuid[])
