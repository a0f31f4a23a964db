-- Folds what was noted of suppressed duplicates into their counters, and deletes old counters.
SELECT /* schema */fold_duplicates($1) AS folded
