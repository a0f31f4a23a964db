-- Periodic jobs that live runners define differently in their code, with a runner of each definition; and those that were
-- defined in code, and that no live runner defines, where there are live runners.
WITH live AS MATERIALIZED (
    SELECT r.name, r.periodic FROM /* schema */runner AS r WHERE r.leased_until > clock_timestamp()
)
SELECT to_jsonb(o)
FROM (
    SELECT d.periodic AS name, count(*) AS definitions, array_agg(d.runner ORDER BY d.runner COLLATE "C") AS runners
    FROM (
        SELECT c.key COLLATE "C" AS periodic, c.value COLLATE "C" AS digest, min(l.name COLLATE "C") AS runner
        FROM live AS l
        CROSS JOIN LATERAL jsonb_each_text(l.periodic) AS c
        GROUP BY c.key COLLATE "C", c.value COLLATE "C"
    ) AS d
    GROUP BY d.periodic
    HAVING count(*) > 1
    UNION ALL
    SELECT p.name, 0, '{}'
    FROM /* schema */periodic AS p
    WHERE p.source = 'code'
        AND EXISTS (SELECT FROM live)
        AND NOT EXISTS (SELECT FROM live AS l WHERE l.periodic ? p.name)
) AS o
ORDER BY o.name COLLATE "C"
LIMIT 100
