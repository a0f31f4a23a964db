-- Counts the suppressed duplicates of a kind from now on, or no more.
SELECT a.kind FROM /* schema */audit_duplicates($1, $2, $3) AS a
