-- Databases and schemas of tests that are older than a day: their process was killed.
WITH test AS (
    SELECT d.datname::text AS name, d.datdba AS owner, true AS is_database
    FROM pg_database AS d
    UNION ALL
    SELECT n.nspname::text, n.nspowner, false
    FROM pg_namespace AS n
)
SELECT t.name, t.is_database
FROM test AS t
WHERE t.name ~ '^uniqueue_test_[0-9]{10}_'
    AND to_timestamp(substring(t.name FROM '^uniqueue_test_([0-9]{10})_')::bigint)
        < clock_timestamp() - interval '1 day'
    AND pg_has_role(t.owner, 'USAGE')
