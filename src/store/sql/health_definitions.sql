-- Kinds of which live processes declare one default differently, with a process of each definition. What a live runner registered at its
-- start, and the newest registration, count. The one before it counts while the runner of that name is alive, and for an hour
-- after it came back: then two processes register in turn.
SELECT to_jsonb(o)
FROM (
    SELECT DISTINCT ON (d.kind)
        d.kind AS name, count(*) AS definitions, array_agg(d.process ORDER BY d.process COLLATE "C") AS processes,
        max(k.registered_by) AS counts
    FROM (
        SELECT s.kind, m.digest COLLATE "C" AS digest, min(s.process COLLATE "C") AS process
        FROM (
            SELECT c.key COLLATE "C" AS kind, c.value COLLATE "C" AS digest, r.name AS process
            FROM /* schema */runner AS r
            CROSS JOIN LATERAL jsonb_each_text(r.registered) AS c
            WHERE r.leased_until > clock_timestamp()
            UNION ALL
            SELECT k.name, k.digest, k.registered_by
            FROM /* schema */kind AS k
            UNION ALL
            SELECT k.name, k.former_digest, k.former_by
            FROM /* schema */kind AS k
            WHERE k.returned_at > clock_timestamp() - interval '1 hour'
                OR EXISTS (
                    SELECT FROM /* schema */runner AS r
                    WHERE r.name = k.former_by AND r.name <> k.registered_by AND r.leased_until > clock_timestamp()
                        AND NOT r.registered ? k.name
                )
        ) AS s
        CROSS JOIN LATERAL string_to_table(s.digest, ' ') AS m (digest)
        GROUP BY s.kind, m.digest COLLATE "C"
    ) AS d
    INNER JOIN /* schema */kind AS k ON k.name = d.kind
    GROUP BY d.kind, split_part(d.digest, '=', 1)
    HAVING count(*) > 1
    ORDER BY d.kind, count(*) DESC
) AS o
ORDER BY o.name COLLATE "C"
LIMIT 100
