-- The migrations that this schema has seen.
SELECT h.version, h.name, h.checksum
FROM /* schema */schema_history AS h
ORDER BY h.version
