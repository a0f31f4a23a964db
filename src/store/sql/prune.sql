-- Deletes final jobs past their retention, of those from $1 up to $2, at most $3. $4, $5 and $6 are the retention where the
-- queue has none of its own. A job that is not final yet counts as one that may be deleted in $7.
SELECT p.pruned, p.remaining, p.reached, p.next_in
FROM /* schema */_prune_jobs($1, $2, $3, $4, $5, $6, $7) AS p
