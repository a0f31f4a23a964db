-- Starts or stops counting the suppressed duplicates of a kind.
SELECT a.kind FROM /* schema */audit_duplicates($1, $2, $3) AS a
