-- Makes the schema a place. An error if it is another.
SELECT p.name, p.hashed
FROM /* schema */name_place($1, $2) AS p
