-- Indexes on the queue's own tables that no query uses, because building them failed or is going on. $1: the
-- schema, quoted.
SELECT to_jsonb(i)
FROM (
    SELECT
        c.relname::text AS name,
        r.relname::text AS of_table,
        -- What a failed REINDEX CONCURRENTLY leaves behind beside the index that it was for.
        c.relname ~ '_cc(new|old)[0-9]*$' AS is_leftover,
        x.indisready AS is_written,
        EXISTS (
            SELECT FROM pg_locks AS l
            WHERE l.relation = x.indrelid
                AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
                AND l.mode = 'ShareUpdateExclusiveLock'
                AND l.granted
        ) AS may_be_building
    FROM pg_index AS x
    JOIN pg_class AS c ON c.oid = x.indexrelid
    JOIN pg_class AS r ON r.oid = x.indrelid
    WHERE r.relnamespace = to_regnamespace($1) AND NOT x.indisvalid
    ORDER BY c.relname
) AS i
