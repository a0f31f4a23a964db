-- Stores what runs report of their progress. Never waits for a row: one that is locked is left for the next time, so that
-- this blocks nothing and is part of no deadlock. The ids come sorted, and width_bucket finds a row's place in the
-- arrays, for the reason that V27__finish.sql gives. Answers with the jobs whose report was stored.
WITH mine AS (
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.id = ANY ($2::uuid[])
        -- The fence, in a form that job_running cannot serve, so that the ids alone lead to rows.
        AND (j.state, j.worker, j.run)
            IS NOT DISTINCT FROM ('running', $1::uuid, ($3::integer[])[width_bucket(j.id, $2::uuid[])])
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE /* schema */job AS j
SET progress = ($4::jsonb[])[width_bucket(j.id, $2::uuid[])]
WHERE j.id = ANY (ARRAY(SELECT m.id FROM mine AS m))
RETURNING j.id
