-- The migrations that this schema has seen, and the oldest version of the library that may use it after each.
SELECT
    h.version, h.name, h.checksum,
    -- A schema of an early pre-release has no such column.
    coalesce((to_jsonb(h) ->> 'oldest')::integer, h.version) AS oldest
FROM /* schema */schema_history AS h
ORDER BY h.version
