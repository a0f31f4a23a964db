-- Deletes the rows of groups whose times have passed, up to a thousand.
SELECT /* schema */_prune_groups() AS pruned
