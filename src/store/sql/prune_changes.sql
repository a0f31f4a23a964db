-- Deletes logged changes that are older than $1, up to a thousand.
SELECT /* schema */_prune_changes($1) AS pruned
