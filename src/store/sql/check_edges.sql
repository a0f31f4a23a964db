-- Looks at the edges of up to $2 children after the child $1, and repairs edges after changes by hand.
SELECT c.last_child, c.mended
FROM /* schema */_check_edges($1, $2) AS c
