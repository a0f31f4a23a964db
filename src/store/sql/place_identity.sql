-- The place that the schema is.
SELECT p.name, p.hashed
FROM /* schema */place AS p
