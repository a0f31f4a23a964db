-- The queue's own tables that have an index of at least $1 pages, and whether the role may tend them.
SELECT r.relname::text AS name, pg_has_role(r.relowner, 'USAGE') AS is_owner
FROM pg_class AS r
WHERE r.relnamespace = to_regnamespace($2)
    AND r.relkind = 'r'
    AND EXISTS (
        SELECT FROM pg_index AS i
        WHERE i.indrelid = r.oid
            AND pg_relation_size(i.indexrelid) / current_setting('block_size')::bigint >= $1
    )
ORDER BY r.relname
