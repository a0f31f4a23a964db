-- Completes runs and deletes the rows of their jobs. The parameters are the same as in complete.sql.
SELECT d.state, d.ended AS ids, d.discarded
FROM /* schema */_delete_runs($1, $2, $3, $4) AS d
