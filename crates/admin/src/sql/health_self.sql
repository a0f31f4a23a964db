-- Whom the database takes us for, and what that role may see. schema: its name, quoted.
SELECT
    current_user::text AS role,
    current_database()::text AS database,
    getdatabaseencoding()::text AS encoding,
    current_setting('server_version') AS version,
    to_regnamespace($1::jsonb ->> 'schema') IS NOT NULL AS has_schema,
    coalesce(has_schema_privilege(to_regnamespace($1::jsonb ->> 'schema')::oid, 'USAGE'), false) AS may_use,
    pg_has_role('pg_read_all_stats', 'USAGE') AS sees_sessions,
    (
        SELECT count(*)
        FROM pg_stat_activity AS a
        WHERE a.datname = current_database() AND a.query = '<insufficient privilege>'
    ) AS hidden_sessions,
    pg_is_in_recovery() AS is_standby,
    extract(epoch FROM clock_timestamp())::double precision AS clock
