-- What a REINDEX CONCURRENTLY that failed left behind on the queue's own tables: invalid indexes with
-- the names that it gives, which no query uses and every write pays for.
SELECT c.relname::text AS name, pg_has_role(c.relowner, 'USAGE') AS is_owner
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid
JOIN pg_class AS r ON r.oid = i.indrelid
WHERE r.relnamespace = to_regnamespace($1) AND NOT i.indisvalid AND c.relname ~ '_cc(new|old)[0-9]*$'
ORDER BY c.relname
