-- Makes the schema a place. An error if it is another.
SELECT
FROM /* schema */name_place($1, $2, $3)
