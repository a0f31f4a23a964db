-- What the queue's schema holds: a row an object, with what it is made of as text that PostgreSQL 14 to 18 write
-- alike. Asked with search_path set to the schema, so that the schema's name stands in none of it. Left out are
-- comments, owners, grants and storage settings, which are an operator's business, and indexes of constraints, which
-- stand with them. The server prints a view and a parsed function from its own tree, and releases print differently:
-- PostgreSQL 16 names fewer tables than 15, and minor releases of 2026 write AS before the alias of UPDATE and DELETE. So
-- their text counts without qualifiers, AS, brackets and white space. What a failed rebuild of an index left behind is a
-- finding of its own.
SELECT to_jsonb(o)
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
    WHERE t.typnamespace = to_regnamespace($1) AND (t.typtype IN ('e', 'd') OR c.relkind = 'c')
    UNION ALL
    SELECT
        'table', c.relname::text, c.relname::text,
        CASE c.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END || 'TABLE'
            || CASE WHEN c.relrowsecurity THEN ' with row security' ELSE '' END
    FROM pg_class AS c
    WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'p')
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
    WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('v', 'm')
    UNION ALL
    SELECT
        'column', a.attname::text, c.relname::text,
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
        )
    FROM pg_attribute AS a
    JOIN pg_class AS c ON c.oid = a.attrelid
    JOIN pg_type AS t ON t.oid = a.atttypid
    LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
    LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE c.relnamespace = to_regnamespace($1)
        AND c.relkind IN ('r', 'p')
        AND a.attnum > 0
        AND NOT a.attisdropped
    UNION ALL
    SELECT 'constraint', o.conname::text, c.relname::text, pg_get_constraintdef(o.oid)
    FROM pg_constraint AS o
    JOIN pg_class AS c ON c.oid = o.conrelid
    -- PostgreSQL 18 lists NOT NULL among them; here it stands with the column.
    WHERE c.relnamespace = to_regnamespace($1) AND o.contype <> 'n'
    UNION ALL
    SELECT
        'index', i.relname::text, c.relname::text,
        replace(pg_get_indexdef(x.indexrelid), format(' ON %I.', n.nspname), ' ON ')
    FROM pg_index AS x
    JOIN pg_class AS i ON i.oid = x.indexrelid
    JOIN pg_class AS c ON c.oid = x.indrelid
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.oid = to_regnamespace($1)
        AND c.relkind IN ('r', 'p')
        AND NOT (NOT x.indisvalid AND i.relname ~ '_cc(new|old)[0-9]*$')
        AND NOT EXISTS (SELECT FROM pg_constraint AS o WHERE o.conindid = x.indexrelid AND o.contype IN ('p', 'u', 'x'))
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
    WHERE n.oid = to_regnamespace($1)
    UNION ALL
    SELECT 'trigger', t.tgname::text, c.relname::text, pg_get_triggerdef(t.oid, true)
    FROM pg_trigger AS t
    JOIN pg_class AS c ON c.oid = t.tgrelid
    WHERE c.relnamespace = to_regnamespace($1) AND NOT t.tgisinternal
    UNION ALL
    SELECT 'rule', r.rulename::text, c.relname::text, pg_get_ruledef(r.oid, true)
    FROM pg_rewrite AS r
    JOIN pg_class AS c ON c.oid = r.ev_class
    WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'p')
) AS o
ORDER BY o.kind COLLATE "C", o.of_table COLLATE "C", o.name COLLATE "C"
