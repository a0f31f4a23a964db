-- The bounds of a round of the pruner. $1, $2 and $3 are the retention where a queue has none of its own.
SELECT b.young_from, b.young_to, b.shortest, b.settings
FROM /* schema */_prune_bounds($1, $2, $3) AS b
