-- An operator's retry of the graphs of the jobs in $1.
SELECT
    c.id, c.kind, c.queue, c.attempt, c.state, c.refused, c.holder,
    -- Evaluated after all rows are changed: the limit is not for the waits of the COMMIT.
    CASE WHEN $2::text IS NOT NULL THEN set_config('lock_timeout', '0', true) END AS unlimited
FROM unnest($1::uuid[]) AS g (id)
CROSS JOIN LATERAL /* schema */retry_graph(g.id) AS c
-- Evaluated once, before the first row: the longest wait for a row that another transaction has locked.
WHERE (SELECT set_config('lock_timeout', coalesce($2, current_setting('lock_timeout')), true)) IS NOT NULL
