-- Whether our role may create databases.
SELECT r.rolcreatedb OR r.rolsuper AS may
FROM pg_roles AS r
WHERE r.rolname = current_user
