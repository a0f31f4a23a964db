-- Kinds and queues of which at least 100 of the last $1 discarded jobs expired within the last hour.
SELECT to_jsonb(g)
FROM (
    SELECT d.kind, d.queue, count(*) AS jobs, (array_agg(d.id ORDER BY d.id DESC))[1] AS job
    FROM (
        SELECT j.id, j.kind, j.queue, j.finalized_at, j.expires_at, j.errors -> -1 ->> 'code' AS code
        FROM /* schema */job AS j
        WHERE j.state = 'discarded'
        ORDER BY j.id DESC
        LIMIT $1
    ) AS d
    WHERE d.expires_at IS NOT NULL AND d.code = 'expired' AND d.finalized_at > statement_timestamp() - interval '1 hour'
    GROUP BY d.kind, d.queue
    HAVING count(*) >= 100
    ORDER BY d.kind, d.queue
    LIMIT 100
) AS g
