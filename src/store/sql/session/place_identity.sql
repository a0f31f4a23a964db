-- The place that the schema is. The types and collations are those of a tombstone as well: a prepared statement goes on.
SELECT p.name::text COLLATE "C" AS name, p.hashed COLLATE "C" AS hashed, /* schema */place_is_copy() AS is_copy
FROM /* schema */place AS p
