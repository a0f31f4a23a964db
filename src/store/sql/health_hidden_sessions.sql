-- How many sessions of this database belong to roles of which this one sees nothing.
SELECT to_jsonb(h)
FROM (
    SELECT count(*) AS sessions
    FROM pg_stat_activity AS a
    WHERE a.datname = current_database() AND a.query = '<insufficient privilege>'
) AS h
