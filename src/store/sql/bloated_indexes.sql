-- The indexes of the queue's own tables that hold at least $2 times the pages that they need, and at least $1 pages.
-- The most bloated comes first. The need is estimated from the last ANALYZE of the table, with the free space of a
-- fresh index. The estimate is high rather than low: a value that PostgreSQL stores once for many equal rows counts for
-- each row. Indexes other than B-trees, and those of tables never analysed, are left out.
WITH width AS (
    SELECT
        i.indexrelid, i.indrelid,
        -- The line pointer, the header of the entry, and each column rounded up to eight bytes.
        sum(
            ceil(
                CASE WHEN t.typlen > 0 THEN t.typlen ELSE coalesce(s.avg_width, 1024) END::numeric / 8
            ) * 8
        ) + 12 AS entry
    FROM pg_index AS i
    JOIN pg_class AS c ON c.oid = i.indexrelid
    JOIN pg_am AS m ON m.oid = c.relam AND m.amname = 'btree'
    JOIN pg_class AS r ON r.oid = i.indrelid
    JOIN pg_namespace AS n ON n.oid = r.relnamespace
    JOIN pg_attribute AS a ON a.attrelid = i.indexrelid
    JOIN pg_type AS t ON t.oid = a.atttypid
    LEFT JOIN pg_attribute AS o ON o.attrelid = i.indrelid AND o.attnum = i.indkey[a.attnum - 1]
    LEFT JOIN pg_stats AS s ON s.schemaname = n.nspname AND s.tablename = r.relname AND s.attname = o.attname
    WHERE n.oid = to_regnamespace($3) AND i.indisvalid AND i.indisready
    GROUP BY i.indexrelid, i.indrelid
),
size AS (
    SELECT
        w.indexrelid, w.indrelid, c.relname, c.relowner,
        pg_relation_size(w.indexrelid) / current_setting('block_size')::bigint AS pages,
        -- Nine tenths of a page are filled; a twenty-fifth more for the pages above the leaves.
        ceil(c.reltuples * w.entry / (current_setting('block_size')::bigint - 40) / 0.9 * 1.04) + 2 AS needed
    FROM width AS w
    JOIN pg_class AS c ON c.oid = w.indexrelid
    JOIN pg_class AS r ON r.oid = w.indrelid
    WHERE c.reltuples >= 0 AND r.reltuples >= 0
)
SELECT s.relname::text AS name, s.pages, s.needed::bigint AS needed, pg_has_role(s.relowner, 'USAGE') AS is_owner
FROM size AS s
WHERE s.pages >= $1 AND s.pages >= $2 * s.needed
ORDER BY s.pages - s.needed DESC, s.relname
