-- The statements that move every time in the queue's tables back by $1, as if that long had passed.
-- Read from the catalog, so that no column is forgotten.
SELECT
    format(
        'UPDATE %I.%I SET %s', n.nspname, c.relname,
        string_agg(format('%1$I = %1$I - $1::interval', a.attname), ', ' ORDER BY a.attnum)
    ) AS statement
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1
    AND c.relkind = 'r'
    AND a.atttypid = 'timestamptz'::regtype
    AND a.attnum > 0
    AND a.attgenerated = ''
    AND NOT a.attisdropped
GROUP BY n.nspname, c.relname
ORDER BY c.relname
