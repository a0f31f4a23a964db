-- The columns, constraints, indexes, triggers and rules of the tables in the queue's schema, as health_objects.sql
-- has the other objects. Left out are indexes of constraints, which the constraints include, and indexes that a
-- failed rebuild left behind, which have a finding of their own.
SELECT o.kind, o.name, o.of_table, o.definition
FROM (
    SELECT
        'column' AS kind, a.attname::text AS name, c.relname::text AS of_table,
        concat_ws(
            ' ',
            format_type(a.atttypid, a.atttypmod),
            CASE WHEN a.attcollation <> t.typcollation THEN 'COLLATE ' || quote_ident(l.collname) END,
            CASE WHEN a.attnotnull THEN 'NOT NULL' END,
            CASE
                WHEN a.attgenerated = 's' THEN 'GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid) || ') STORED'
                WHEN a.attgenerated <> '' THEN 'GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid) || ')'
                WHEN d.adbin IS NOT NULL THEN 'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid)
            END
        ) AS definition
    FROM pg_attribute AS a
    JOIN pg_class AS c ON c.oid = a.attrelid
    JOIN pg_type AS t ON t.oid = a.atttypid
    LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
    LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE c.relnamespace = to_regnamespace($1::jsonb ->> 'schema')
        AND c.relkind IN ('r', 'p')
        AND a.attnum > 0
        AND NOT a.attisdropped
    UNION ALL
    SELECT 'constraint', o.conname::text, c.relname::text, pg_get_constraintdef(o.oid)
    FROM pg_constraint AS o
    JOIN pg_class AS c ON c.oid = o.conrelid
    -- PostgreSQL 18 lists NOT NULL among them; here it stands with the column.
    WHERE c.relnamespace = to_regnamespace($1::jsonb ->> 'schema') AND o.contype <> 'n'
    UNION ALL
    SELECT
        'index', i.relname::text, c.relname::text,
        replace(pg_get_indexdef(x.indexrelid), format(' ON %I.', n.nspname), ' ON ')
    FROM pg_index AS x
    JOIN pg_class AS i ON i.oid = x.indexrelid
    JOIN pg_class AS c ON c.oid = x.indrelid
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.oid = to_regnamespace($1::jsonb ->> 'schema')
        AND c.relkind IN ('r', 'p')
        AND NOT (NOT x.indisvalid AND i.relname ~ '_cc(new|old)[0-9]*$')
        AND NOT EXISTS (SELECT FROM pg_constraint AS o WHERE o.conindid = x.indexrelid AND o.contype IN ('p', 'u', 'x'))
    UNION ALL
    SELECT 'trigger', t.tgname::text, c.relname::text, pg_get_triggerdef(t.oid, true)
    FROM pg_trigger AS t
    JOIN pg_class AS c ON c.oid = t.tgrelid
    WHERE c.relnamespace = to_regnamespace($1::jsonb ->> 'schema') AND NOT t.tgisinternal
    UNION ALL
    SELECT 'rule', r.rulename::text, c.relname::text, pg_get_ruledef(r.oid, true)
    FROM pg_rewrite AS r
    JOIN pg_class AS c ON c.oid = r.ev_class
    WHERE c.relnamespace = to_regnamespace($1::jsonb ->> 'schema') AND c.relkind IN ('r', 'p')
) AS o
ORDER BY o.kind COLLATE "C", o.of_table COLLATE "C", o.name COLLATE "C"
