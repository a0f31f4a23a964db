-- Ends the connections that a test has left open, by the name they carry.
SELECT count(pg_terminate_backend(a.pid)) AS ended
FROM pg_stat_activity AS a
WHERE a.application_name = $1 AND a.pid <> pg_backend_pid()
