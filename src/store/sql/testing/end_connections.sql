-- Ends the sessions that a test has left open: those that carry its name, and those that hold locks in its schemas,
-- such as an application's with a name of their own. Only sessions of our own role: others are not the test's, and
-- ending them takes more rights.
SELECT count(pg_terminate_backend(a.pid)) AS ended
FROM pg_stat_activity AS a
WHERE a.pid <> pg_backend_pid()
    AND a.datname = current_database()
    AND a.backend_type = 'client backend'
    AND a.usename = session_user
    AND (
        a.application_name = $1
        OR EXISTS (
            SELECT
            FROM pg_locks AS l
            JOIN pg_class AS c ON c.oid = l.relation
            JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE l.pid = a.pid
                AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
                AND n.nspname IN ($1, $2)
        )
    )
