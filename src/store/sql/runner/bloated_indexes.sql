-- The indexes with at least $1 pages that hold at least $2 times the pages that they need.
SELECT b.name, b.pages, b.needed, b.is_owner FROM /* schema */_bloated_indexes($1, $2) AS b
