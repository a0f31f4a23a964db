-- An operator's retry of the graphs of the jobs in $1.
WITH changed AS MATERIALIZED (
    SELECT c.*
    FROM unnest($1::uuid[]) AS g (id)
    CROSS JOIN LATERAL /* schema */retry_graph(g.id) AS c
    WHERE /* within */true
)
SELECT c.*, l.* FROM changed AS c CROSS JOIN /* logged */(SELECT) AS l
