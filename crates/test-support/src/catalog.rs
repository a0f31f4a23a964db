//! The objects of a schema as text, for the golden dump.

use std::fmt::Write;

use sqlx::Row;

use super::Database;

/// Each kind of object: a heading, and a query for one line an object, in a fixed order. Whatever
/// differs between PostgreSQL 14 and 18 is left out.
const OBJECTS: &[(&str, &str)] = &[
    (
        "types",
        "SELECT format('%s: %s — %s', t.typname,
                coalesce(
                    (SELECT string_agg(e.enumlabel, ' ' ORDER BY e.enumsortorder) FROM pg_enum AS e WHERE e.enumtypid = t.oid),
                    (SELECT format_type(t.typbasetype, NULL) || ' ' || string_agg(pg_get_constraintdef(o.oid), ' ')
                     FROM pg_constraint AS o WHERE o.contypid = t.oid),
                    (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
                     FROM pg_attribute AS a WHERE a.attrelid = t.typrelid AND a.attnum > 0)
                ),
                coalesce(obj_description(t.oid, 'pg_type'), 'NO COMMENT'))
         FROM pg_type AS t LEFT JOIN pg_class AS c ON c.oid = t.typrelid
         WHERE t.typnamespace = $1::regnamespace AND (t.typtype IN ('e', 'd') OR c.relkind = 'c') ORDER BY 1",
    ),
    (
        "tables and views",
        "SELECT format('%s (%s)%s — %s', c.relname, c.relkind, ' ' || array_to_string(c.reloptions, ' '),
                coalesce(obj_description(c.oid, 'pg_class'), 'NO COMMENT'))
         FROM pg_class AS c WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'v', 'm', 'p') ORDER BY c.relname",
    ),
    (
        "columns",
        "SELECT format('%s.%s %s%s%s — %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                CASE WHEN a.attnotnull THEN ' not null' END,
                CASE WHEN a.attgenerated = 's' THEN ' generated' WHEN a.atthasdef THEN ' default '
                    || (SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef AS d WHERE d.adrelid = c.oid AND d.adnum = a.attnum) END,
                coalesce(col_description(c.oid, a.attnum), 'NO COMMENT'))
         FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
         WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'v', 'm', 'p') AND a.attnum > 0 AND NOT a.attisdropped
         ORDER BY c.relname, a.attnum",
    ),
    (
        "constraints",
        "SELECT format('%s on %s — %s', o.conname, c.relname, coalesce(obj_description(o.oid, 'pg_constraint'), 'NO COMMENT'))
         FROM pg_constraint AS o JOIN pg_class AS c ON c.oid = o.conrelid
         WHERE c.relnamespace = $1::regnamespace AND o.contype <> 'n' ORDER BY c.relname, o.conname",
    ),
    (
        "indexes",
        "SELECT format('%s — %s', replace(pg_get_indexdef(i.indexrelid), $1 || '.', ''),
                coalesce(obj_description(i.indexrelid, 'pg_class'),
                    CASE WHEN i.indisprimary THEN 'the primary key' ELSE 'NO COMMENT' END))
         FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid
         WHERE c.relnamespace = $1::regnamespace ORDER BY 1",
    ),
    (
        "functions",
        "SELECT format('%s(%s) -> %s %s %s [%s] body %s — %s', p.proname,
                replace(pg_get_function_arguments(p.oid), $1 || '.', ''),
                replace(pg_get_function_result(p.oid), $1 || '.', ''), l.lanname,
                CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END,
                replace(array_to_string(p.proconfig, ', '), $1, 'SCHEMA'),
                CASE WHEN p.prosqlbody IS NULL THEN left(md5(p.prosrc), 8) ELSE 'parsed' END,
                coalesce(obj_description(p.oid, 'pg_proc'), 'NO COMMENT'))
         FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
         WHERE p.pronamespace = $1::regnamespace ORDER BY 1",
    ),
];

impl Database {
    /// Everything in the schema, one line an object.
    pub async fn catalog(&self) -> String {
        let mut text = String::new();
        for (heading, query) in OBJECTS {
            let rows = sqlx::query(*query).bind(&self.schema).fetch_all(self.pool()).await.expect(heading);
            writeln!(text, "# {heading}\n").expect("a string takes everything");
            for row in rows {
                let line: String = row.get(0);
                writeln!(text, "{}", line.replace('\n', " ")).expect("a string takes everything");
            }
            text.push('\n');
        }
        text
    }
}
