-- Deletes logged changes that are older than $1, up to a thousand. Tends the history in the same statement, because an idle
-- runner sends few.
SELECT /* schema */_prune_changes($1) AS pruned, /* schema */_tend_history() AS tallied
