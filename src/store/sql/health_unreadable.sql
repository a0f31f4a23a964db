-- The jobs among the last $1 discarded ones that were discarded because their rows could not be read, by kind and queue,
-- with the last of them and its reason.
SELECT to_jsonb(g)
FROM (
    SELECT
        u.kind, u.queue, true AS is_discarded, count(*) AS jobs, (array_agg(u.id ORDER BY u.id DESC))[1] AS job,
        left((array_agg(u.problem ORDER BY u.id DESC))[1], 300) AS problem
    FROM (
        SELECT j.id, j.kind, j.queue, j.errors #>> '{-1,error}' AS problem
        FROM /* schema */job AS j
        WHERE j.state = 'discarded'
        ORDER BY j.id DESC
        LIMIT $1
    ) AS u
    WHERE u.problem COLLATE "C" LIKE 'the job''s row cannot be %'
    GROUP BY u.kind, u.queue
    ORDER BY u.kind, u.queue
    LIMIT 100
) AS g
