-- Schemas of test databases that are older than a day: their process was killed.
SELECT n.nspname AS name
FROM pg_namespace AS n
WHERE n.nspname ~ '^uniqueue_test_[0-9]{10}_'
    AND to_timestamp(substring(n.nspname FROM '^uniqueue_test_([0-9]{10})_')::bigint)
        < clock_timestamp() - interval '1 day'
    AND pg_has_role(n.nspowner, 'USAGE')
