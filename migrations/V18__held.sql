-- Looking for the holders of keys without a function around it, which costs more than the look. Runs with search_path
-- set to the schema.

-- held_jobs stays for clients of the version before.
CREATE FUNCTION not_by_scan(claims boolean) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    COST 1000000
AS $$
BEGIN
    RETURN claims;
END
$$;
COMMENT ON FUNCTION not_by_scan(boolean) IS
    'Returns what it is given, at a high declared price, which the planner counts for each row that a scan of the table would have to ask it about. Beside a condition that an index on claiming jobs implies, it is never called: it keeps a statement that is planned while the table is small, and kept, from reading the whole table later.';
