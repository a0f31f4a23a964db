-- The types, tables, views and functions of the queue's schema: a row an object, with what it is made of as text that
-- PostgreSQL 14 to 18 write alike. The connection sets search_path to the schema, so that no text contains the schema's name.
-- Left out are comments, owners, grants and storage settings, which are an operator's business. The server prints a
-- view and a parsed function from its own tree, and releases print differently: PostgreSQL 16 names fewer tables than
-- 15, and minor releases of 2026 write AS before the alias of UPDATE and DELETE. So their text counts without
-- qualifiers, AS, brackets and white space.
SELECT o.kind, o.name, o.of_table, o.definition
FROM (
    SELECT
        'type' AS kind, t.typname::text AS name, NULL::text AS of_table,
        CASE t.typtype
            WHEN 'e' THEN (
                SELECT format('ENUM (%s)', string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder))
                FROM pg_enum AS e
                WHERE e.enumtypid = t.oid
            )
            WHEN 'c' THEN (
                SELECT format('(%s)', string_agg(
                    concat_ws(
                        ' ', a.attname, format_type(a.atttypid, a.atttypmod),
                        CASE WHEN a.attcollation <> n.typcollation THEN 'COLLATE ' || quote_ident(l.collname) END
                    ),
                    ', ' ORDER BY a.attnum
                ))
                FROM pg_attribute AS a
                JOIN pg_type AS n ON n.oid = a.atttypid
                LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
                WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
            )
            ELSE concat_ws(
                ' ',
                format_type(t.typbasetype, t.typtypmod),
                CASE WHEN t.typcollation <> b.typcollation THEN 'COLLATE ' || quote_ident(l.collname) END,
                (SELECT string_agg(pg_get_constraintdef(o.oid), ' ') FROM pg_constraint AS o WHERE o.contypid = t.oid)
            )
        END AS definition
    FROM pg_type AS t
    LEFT JOIN pg_type AS b ON b.oid = t.typbasetype
    LEFT JOIN pg_collation AS l ON l.oid = t.typcollation
    LEFT JOIN pg_class AS c ON c.oid = t.typrelid
    WHERE t.typnamespace = to_regnamespace($1::jsonb ->> 'schema') AND (t.typtype IN ('e', 'd') OR c.relkind = 'c')
    UNION ALL
    SELECT
        'table', c.relname::text, c.relname::text,
        CASE c.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END || 'TABLE'
            || CASE WHEN c.relrowsecurity THEN ' with row security' ELSE '' END
    FROM pg_class AS c
    WHERE c.relnamespace = to_regnamespace($1::jsonb ->> 'schema') AND c.relkind IN ('r', 'p')
    UNION ALL
    SELECT
        'view', c.relname::text, NULL,
        (
            SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
            FROM pg_attribute AS a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        )
            || ' body ' || left(md5(regexp_replace(pg_get_viewdef(c.oid) COLLATE "C", '\w+\.|\mAS\M|[\s()]', '', 'g')), 8)
    FROM pg_class AS c
    WHERE c.relnamespace = to_regnamespace($1::jsonb ->> 'schema') AND c.relkind IN ('v', 'm')
    UNION ALL
    SELECT
        'function', p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', NULL,
        concat_ws(
            ' ',
            'returns', pg_get_function_result(p.oid), 'language', l.lanname,
            CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END,
            CASE WHEN p.proisstrict THEN 'strict' END,
            CASE WHEN p.prosecdef THEN 'security definer' END,
            'parallel ' || p.proparallel::text,
            'arguments (' || pg_get_function_arguments(p.oid) || ')',
            (
                SELECT 'set ' || string_agg(replace(s.setting, quote_ident(n.nspname) || ',', 'SCHEMA,'), '; ' ORDER BY s.place)
                FROM unnest(p.proconfig) WITH ORDINALITY AS s (setting, place)
            ),
            'body ' || left(
                md5(coalesce(regexp_replace(pg_get_function_sqlbody(p.oid) COLLATE "C", '\w+\.|\mAS\M|[\s()]', '', 'g'), p.prosrc)), 8
            )
        )
    FROM pg_proc AS p
    JOIN pg_language AS l ON l.oid = p.prolang
    JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.oid = to_regnamespace($1::jsonb ->> 'schema')
) AS o
ORDER BY o.kind COLLATE "C", o.of_table COLLATE "C", o.name COLLATE "C"
