-- Makes up to $1 jobs available that are due, of those that were due at $2 or later, and of these at those in $3; null: of all.
SELECT p.promoted, p.reached, p.next_in
FROM /* schema */_promote_jobs($1, $2, $3) AS p
