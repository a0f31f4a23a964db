-- The version of the latest migration that this schema has seen.
SELECT coalesce(max(h.version), 0) AS version
FROM /* schema */schema_history AS h
