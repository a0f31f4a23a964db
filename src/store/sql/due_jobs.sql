-- The jobs that promote.sql finds, except those in $3: up to $1 that were due at $2 or later; null: at any time.
SELECT d.id
FROM /* schema */_due_jobs($1, $2, $3) AS d (id)
